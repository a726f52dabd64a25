"""Every mistake in a flow's file is one sentence that names the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.options import kafka_settings
from sluiceway.errors import SettingsError
from sluiceway.flows.changes import apply_changes, parse_single
from sluiceway.flows.settings import Settings
from sluiceway.topics.positions import Position, parse_position
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, parse_topic

GOOD: dict[str, dict[str, Any]] = {
    "flow": {"name": "spam-eu"},
    "topics": {
        "instances": "kafka://localhost:9092/instances",
        "selections": "kafka://localhost:9092/selections",
        "dead_letters": "kafka://localhost:9092/dead-letters",
    },
    "operator": {"name": "ofs", "k": 20},
}


def changed(**tables: dict[str, Any] | None) -> dict[str, Any]:
    """Good settings with changes; a value of None takes a key away."""
    content: dict[str, Any] = {name: dict(table) for name, table in GOOD.items()}
    for name, table in tables.items():
        if table is None:
            del content[name]
            continue
        content[name] = {k: v for k, v in {**content.get(name, {}), **table}.items() if v is not None}
    return content


def test_good_settings() -> None:
    settings = Settings.parse(changed())
    assert settings.source == KafkaTopic("localhost:9092", "instances")
    assert set(settings.outputs) == {"selections", "dead_letters"}
    assert (settings.input.start, settings.input.stop, settings.scale) == ("beginning", None, "l2")
    assert (settings.emit.every, settings.emit.on_change, settings.input.on_new_partitions) == (1000, False, "stop")
    assert settings.make_operator().params["k"] == 20


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"inputs": {}}, r"^unknown setting inputs: 'inputs'; did you mean 'input'\?$"),
        ({"input": {"strat": "end"}}, r"^unknown setting input\.strat: 'strat'; did you mean 'start'\?$"),
        ({"emit": {"evry": 5}}, r"^unknown setting emit\.evry: 'evry'; did you mean 'every'\?$"),
        ({"operator": None, "operater": {"name": "ofs"}}, r"^unknown setting operater: .*; did you mean 'operator'\?$"),
        ({"flow": None, "flwo": {"name": "f"}}, r"^unknown setting flwo: 'flwo'; did you mean 'flow'\?$"),
        ({"topics": {"selections": None, "selectons": "dir:s"}},
         r"^unknown setting topics\.selectons: 'selectons'; did you mean 'selections'\?$"),
        ({"operator": {"name": None, "nam": "ofs"}},
         r"^the setting operator\.name is missing; did you mean it by 'nam'\?$"),
        ({"window": {"siez": 5}}, r"^unknown setting window\.siez: 'siez'; did you mean 'size'\?$"),
        ({"kafka": {"x": [1]}}, r"^kafka\.x must be a text, a number, true or false$"),
        ({"topics": {"applied": "nonsense"}}, r"^'nonsense' is no topic"),
        ({"topics": {"applied": "kafka://localhost:9092/selections"}},
         r"^topics\.applied and topics\.selections are the same topic$"),
        ({"operator": {"name": "saola", "k": None}, "window": {"size": 20}, "emit": {"every": 1}},
         r"^emit\.every does not go with \[window\]: each full window gives one snapshot"),
        ({"operator": {"name": "saola", "k": None}, "window": {"size": 20}, "emit": {"top": 3, "final": False}},
         r"^emit\.final does not go with \[window\]"),
        ({"output": {"zzz": 5}}, r"^unknown setting output: 'output'; "),
        ({"emit": {"every": "5"}}, r"^emit\.every = '5': input should be a valid integer$"),
        ({"emit": {"every": -1}}, r"^emit\.every = -1: input should be greater than or equal to 0$"),
        ({"emit": {"every": 2.5}}, r"^emit\.every = 2\.5: "),
        ({"emit": {"on_change": 1}}, r"^emit\.on_change = 1: input should be a valid boolean$"),
        ({"input": {"scale": "l1"}}, r"^input\.scale = 'l1': input should be 'none'"),
        ({"output": {"delivery": "at-least-once"}}, r"^output\.delivery is gone: output comes exactly once, and"),
        ({"input": {"on_new_partitions": "skip"}}, r"^input\.on_new_partitions = 'skip': input should be 'stop' or"),
        ({"flow": {"name": "spam.state"}}, r"^flow\.name = 'spam\.state': a name must not end in '\.state'"),
        ({"flow": {"name": "spam.members"}}, r"a name must not end in '\.members', .* own topic or group is called$"),
        ({"flow": {"name": "spam-apply"}}, r"a name must not end in '-apply', which is how a flow's own applying is"),
        ({"topics": {"state": "dir:state"}},
         r"^topics\.state must be a Kafka topic, as outputs of this flow are: the state lies where the output goes$"),
        ({"topics": {"state": "nonsense"}}, r"^'nonsense' is no topic"),
        ({"topics": {"state": "kafka://localhost:9092/instances"}},
         r"^topics\.state and topics\.instances are the same topic$"),
        ({"topics": {"state": "kafka://localhost:9092/selections"}},
         r"^topics\.state and topics\.selections are the same topic$"),
        ({"topics": {"applied": "kafka://localhost:9092/a", "state": "kafka://localhost:9092/a"}},
         r"^topics\.state and topics\.applied are the same topic$"),
        ({"topics": {"predictions": "kafka://localhost:9092/spam-eu.state"}},
         r"^topics\.state and topics\.predictions are the same topic 'spam-eu\.state', where a flow's state lies by"),
        ({"flow": {"name": "two words"}}, r"^flow\.name = 'two words': "),
        ({"flow": {"name": None}}, r"^the setting flow\.name is missing$"),
        ({"flow": None}, r"^the setting flow is missing$"),
        ({"operator": {"name": None}}, r"^the setting operator\.name is missing$"),
        ({"topics": {"dead_letters": None}}, r"^the setting topics\.dead_letters is missing$"),
        ({"topics": {"selections": "localhost/x"}}, r"^'localhost/x' is no topic; write kafka://host:9092/name"),
        ({"topics": {"selections": "kafka://localhost/x"}}, r"written kafka://host:port/name"),
        ({"topics": {"selections": "kafka://h:1/a b"}}, r"'a b' is no topic name"),
        ({"topics": {"selections": "dir:"}}, r"^'dir:' is no topic"),
        ({"input": {"start": "yesterday"}}, r"^'yesterday' is no position in a topic; write beginning, end,"),
        ({"input": {"stop": "2024-13-01"}}, r"^'2024-13-01' is no position"),
        ({"input": {"start": True}}, r"^input\.start = True: "),
        ({"input": {"classes": ["ham"]}}, r"^input\.classes must name two classes, negative first, or up"),
        ({"input": {"classes": ["ham", "ham"]}}, r"^input\.classes must name two classes"),
        ({"input": {"classes": ["a", "b", 3]}}, r"^input\.classes must be texts or integers, not both; got"),
        ({"input": {"classes": [*range(128)]}}, r"^input\.classes must name two classes, .* or up to 127, each once;"),
        ({"input": {"classes": [1, 2, 3]}, "operator": {"name": "ofs-partial"}},
         r"^operator 'ofs-partial' asks for a few features of each instance, .*: it takes two classes$"),
        ({"emit": {"scores": True}}, r"^emit\.scores is for more than two classes: "),
        ({"input": {"classes": [1, 2, 3]}, "operator": {"name": "saola", "k": None}, "window": {"size": 20}},
         r"^operator 'saola' as it is set measures numbers, and 3 classes have no order: choose a measure"),
        ({"input": {"classes": [1, 2, 3]}, "operator": {"name": "saola-stream", "k": None}},
         r"^operator 'saola-stream' as it is set measures numbers, and 3 classes have no order"),
        ({"operator": {"name": "saola-stream", "k": None}, "emit": {"scores": True}},
         r"^operator 'saola-stream' predicts nothing: leave emit\.scores out$"),
        ({"input": {"feature_names": ["a", "a"]}}, r"^input\.feature_names must not repeat a name$"),
        ({"operator": {"name": "perceptron-truncatd"}}, r'did you mean "perceptron-truncated"\?$'),
        ({"operator": {"name": "zzzzz"}}, r'^there is no operator "zzzzz"; there are: ofs, '),
        ({"operator": {"etta": 0.1}}, r"^operator 'ofs' has no parameter 'etta'; did you mean 'eta'\?$"),
        ({"operator": {"k": None}}, r"^operator 'ofs' needs k$"),
        ({"operator": {"k": 0}}, r"^operator 'ofs': k must "),
        ({"operator": {"k": "many"}}, r"^operator 'ofs': k must "),
        ({"operator": {"eta": -1.0}}, r"^operator 'ofs': eta must "),
        ({"topics": {"predictions": "kafka://localhost:9092/selections"}}, r"^two output topics are the same$"),
        ({"topics": {"selections": "kafka://localhost:9092/instances"}}, r"^the input topic is also an output topic$"),
        ({"kafka": {"sasl.password": "${SLUICEWAY_NO_SUCH}"}},
         r"^kafka\.sasl\.password needs the environment variable SLUICEWAY_NO_SUCH, which is not set$"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as caught:
        Settings.parse(changed(**tables))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("other", ["dir:./data/x", "dir:data/./x", "dir:data/y/../x"])
@pytest.mark.parametrize("role", ["selections", "dead_letters"])
def test_a_directory_is_the_same_however_it_is_written(other: str, role: str, tmp_path: Path) -> None:
    topics = {"instances": "dir:data/in", "selections": "dir:data/s", "dead_letters": "dir:data/d"}
    with pytest.raises(SettingsError, match="the input topic is also an output topic"):
        Settings.parse(changed(topics={**topics, "instances": "dir:data/x", role: other}), tmp_path)
    with pytest.raises(SettingsError, match="two output topics are the same"):
        Settings.parse(changed(topics={**topics, "predictions": "dir:data/x", role: other}), tmp_path)


def test_the_state_lies_where_the_output_goes(tmp_path: Path) -> None:
    assert Settings.parse(changed()).state == KafkaTopic("localhost:9092", "spam-eu.state")
    given = Settings.parse(changed(topics={"state": "kafka://localhost:9092/kept"}))
    assert given.state == KafkaTopic("localhost:9092", "kept")
    directories = {"selections": "dir:out/s", "dead_letters": "dir:out/d"}
    assert Settings.parse(changed(topics=directories), tmp_path).state == DirectoryTopic(tmp_path / "out/s.state")
    elsewhere = Settings.parse(changed(topics={**directories, "state": "dir:kept"}), tmp_path)
    assert elsewhere.state == DirectoryTopic(tmp_path / "kept")
    mixed = Settings.parse(changed(topics={"predictions": "dir:out/p"}), tmp_path)
    assert mixed.state == KafkaTopic("localhost:9092", "spam-eu.state")
    with pytest.raises(SettingsError, match=r"topics\.state must be a directory, as its outputs are"):
        Settings.parse(changed(topics={**directories, "state": "kafka://localhost:9092/kept"}), tmp_path)
    with pytest.raises(SettingsError, match=r"topics\.state and topics\.selections are the same topic"):
        Settings.parse(changed(topics={**directories, "state": "dir:./out/../out/s"}), tmp_path)


def test_the_environment_fills_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEWAY_TEST_SECRET", "geheim")
    settings = Settings.parse(changed(kafka={"sasl.password": "a${SLUICEWAY_TEST_SECRET}b", "plain": "$x ${}"}))
    assert settings.kafka == {"sasl.password": "ageheimb", "plain": "$x ${}"}


def test_files_that_are_no_flow(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(SettingsError, match=r"there is no flow file .*missing.toml"):
        Settings.load(missing)
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("[flow\n")
    with pytest.raises(SettingsError, match=r"broken.toml is not TOML: .*line 1"):
        Settings.load(broken)
    broken.write_bytes(b"a = '\xff'")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(broken)
    broken.write_text("[flow]\nname = 'x'\n")
    with pytest.raises(SettingsError, match=r"broken\.toml: the setting topics is missing"):
        Settings.load(broken)


def test_relative_directories_are_meant_from_the_file() -> None:
    settings = Settings.parse(changed(topics={"selections": "dir:out/s"}), Path("/flows"))
    assert settings.outputs["selections"] == DirectoryTopic(Path("/flows/out/s"))
    assert parse_topic("dir:/abs", Path("/flows")) == DirectoryTopic(Path("/abs"))


def test_topic_urls() -> None:
    assert parse_topic("kafka://a:1,b:2/t.x_y-z") == KafkaTopic("a:1,b:2", "t.x_y-z")
    assert str(parse_topic("kafka://a:1/t")) == "kafka://a:1/t"
    for wrong in ("kafka://a:1", "kafka://a:1/", "kafka:///t", "kafka://a:1,/t", "KAFKA://a:1/t", "", "kafka://a:1/t/u"):
        with pytest.raises(SettingsError):
            parse_topic(wrong)


def test_positions() -> None:
    assert parse_position("beginning") == Position("beginning")
    assert parse_position(" end ") == Position("end")
    assert parse_position(17) == parse_position("17") == Position("offset", 17)
    assert parse_position(-5) == Position("last", 5)
    assert parse_position("s@1700000000000") == Position("time", 1_700_000_000_000)
    assert parse_position("2023-11-14T22:13:20Z") == Position("time", 1_700_000_000_000)
    assert parse_position("2023-11-14T22:13:20") == Position("time", 1_700_000_000_000)
    assert parse_position("2023-11-14T23:13:20.5+01:00") == Position("time", 1_700_000_000_500)
    assert parse_position("1950-01-01") == Position("time", 0)
    for wrong in ("", "s@", "s@-1", "--5", "1.5", "1e3", "End", "s@now", "9" * 30):
        with pytest.raises(SettingsError, match="is no position in a topic"):
            parse_position(wrong)


@pytest.mark.parametrize(
    "tables",
    [
        {"kafka": {"sasl.password": ["hunter2"]}},
        {"kafka": {"sasl": {"password": "hunter2"}}},
        {"registry": {"url": "http://r", "basic.auth.user.info": ["user:hunter2"]}},
        {"topics": {"selections": "kafka://user:hunter2@h:1/t"}},
        {"topics": {"selections": "kafka://hunter2@h:1/t"}},
        {"topics": {"selections": "kafka://user:hunter2/@h:1,user:hunter2@h:2/t"}},
        {"topics": {"selections": "user:hunter2@h:1/t"}},
        {"topics": {"selections": ["kafka://user:hunter2@h:1/t"]}},
    ],
)
def test_no_sentence_has_a_secret(tables: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.parse(changed(**tables))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"^kafka must be a table$"):
        Settings.parse({**changed(), "kafka": "hunter2"})


def test_options_with_a_secret_are_not_shown() -> None:
    for given in (["hunter2"], ["=hunter2"]):
        with pytest.raises(SettingsError, match=r"^-X takes NAME=VALUE, for example security\.protocol=SASL_SSL$"):
            kafka_settings(given)
    with pytest.raises(SettingsError, match=r"^--set takes NAME=VALUE,VALUE, for example operator\.k=5,10$"):
        parse_single(["kafka.sasl.password:hunter2"])
    for text in ('kafka.sasl.password=["hunter2"]', "kafka.sasl.password={a = 'hunter2'}"):
        content = apply_changes(changed(), parse_single([text]))
        with pytest.raises(SettingsError, match=r"^kafka\.sasl\.password must be a text, a number, true or false$"):
            Settings.parse(content)
    content = apply_changes(changed(kafka={"sasl.username": "me"}), parse_single(["kafka.sasl.password=hunter2"]))
    assert Settings.parse(content).kafka == {"sasl.username": "me", "sasl.password": "hunter2"}
