"""All models of a lane in one place, so that a compiled call a poll can go through the rows of all of them.

| file | what |
|---|---|
| `arena` | the memory of all models, cut into blocks |
| `block` | the parts of a block |
| `index` | from an address to a slot, within a block |
| `book` | the names of the features that have a weight |
| `rows` | a row meets its model: bound, learnt from, settled |
| `packing` | a model as bytes, and back |
| `sweep` | names that nobody holds any longer leave the book |
| `bank` | the models by number, and what surrounds the call |
| `sparse` | OFS in a bank |

Flows do not use it yet: their streams still have a model object each.
"""
