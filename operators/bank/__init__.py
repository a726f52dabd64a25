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
| `last_snapshot` | what the last snapshot of a model held |
| `bank` | the models by number, and what surrounds the call |
| `seen` | the features that a model has seen, for learners that count or name them |
| `queue` | the bucket queue of a model with many weights |
| `sparse`, `counting`, `partial`, `stsd` | the learners with few weights in a bank |
| `dense` | the learners with a weight for every feature, in a bank |
| `dense_loops` | their loop, filled in for each learner |
| `dense_rows` | what surrounds a row of theirs |
| `learners` | from a learner to what a bank needs of it |
"""
