"""Files of answers: what spreadsheets and people make of them."""

import pytest
import torch

import matcha_gnn as mg

SIZE = {"num_nodes": 600, "num_features": 32, "signal": 2}


@pytest.fixture(scope="module")
def result():
    model = mg.GPRGNN(32, 2, hidden_channels=8, K=3)
    mg.fit(model, mg.datasets.csbm(**SIZE, homophily=0.9, seed=0), epochs=60)
    adapted = mg.adapt(model, mg.datasets.csbm(**SIZE, homophily=0.1, seed=1))
    adapted.ask(10, classes=["ham", "spam, or worse"])
    return adapted


@pytest.fixture
def nodes(result):
    return [each.node for each in result.questions]


@pytest.fixture
def written(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "answers.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def read(result, path):
    return result.answer(path).questions.answers


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("comma", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_spreadsheets_write_is_read(result, nodes, written, encoding, comma, end):
    lines = [["Number", " Node ", "LABEL"], ["1", str(nodes[0]), "ham"], ["2", str(nodes[1]), "1"]]
    lines += [["3", str(nodes[2]), " "], ["4", str(nodes[3])], []]
    path = written(end.join(comma.join(line) for line in lines), encoding)
    assert read(result, path) == {nodes[0]: 0, nodes[1]: 1}


def test_a_filled_in_file_of_questions_is_a_file_of_answers(result, nodes, tmp_path):
    path = tmp_path / "questions.csv"
    result.questions.to_csv(path)
    head, *rows = path.read_text().splitlines()
    place = head.split(",").index("label")
    assert place == 2
    head, rows = f"{head},note", [f'{row},"two\nlines"' for row in rows]
    filled = [row.replace(",,", ',"spam, or worse",', 1) for row in rows[:4]]
    path.write_text("\n".join([head, *filled, *rows[4:]]))
    assert read(result, path) == dict.fromkeys(nodes[:4], 1)
    assert read(result, str(path)) == dict.fromkeys(nodes[:4], 1)


def test_the_same_answer_twice_is_one(result, nodes, written):
    path = written(f"node,label\n{nodes[0]},ham\n{nodes[0]},0\n")
    assert read(result, path) == {nodes[0]: 0}


REFUSED = {
    "": r"answers: got .*answers.csv \(no column 'node'\); allowed: a CSV file with",
    "node\n5\n": r"answers: got .*answers.csv \(no column 'label'\)",
    "node,label\n": r"answers: got .*\(no answer\); allowed: a label for at least one node",
    "node,label\n{0},\n{1},  \n": r"answers: got .*\(no answer\)",
    "node,label\n{0},ham\n99999,ham\n": "answers.csv, line 3: got node 99999; allowed: nodes that",
    "node,label\nseven,ham\n": "answers.csv, line 2: got node 'seven'; allowed: nodes that",
    "node,label\n-1,ham\n": "answers.csv, line 2: got node '-1'",
    "node,label\n{0},2\n": "answers.csv, line 2: got 2; allowed: classes 0 to 1, or their names: h",
    "node,label\n{0},eggs\n": "answers.csv, line 2: got 'eggs'; allowed: classes 0 to 1",
    "node,label\n{0},1.0\n": "answers.csv, line 2: got '1.0'; allowed: classes 0 to 1",
    "node,label\n{0},ham\n{1},0\n{0},1\n": (
        "answers.csv, line 4: got class spam, or worse of node .*; allowed: class ham, as in line 2"
    ),
    "node,label,graph\n{0},ham,0123abcd\n": (
        "answers.csv, line 2: got the graph 0123abcd; allowed: answers about the graph"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_bad_file_is_refused_in_one_line(result, nodes, written, text):
    with pytest.raises(mg.InvalidArgumentError, match=REFUSED[text]) as caught:
        result.answer(written(text.format(*nodes)))
    assert "\n" not in str(caught.value)
    assert result.questions.answers == {}


def test_a_file_that_contradicts_earlier_answers_is_refused(result, nodes, written):
    answered = result.answer({nodes[0]: 0})
    with pytest.raises(mg.InvalidArgumentError, match=r"line 2: got class spam.*, answered before"):
        answered.answer(written(f"node,label\n{nodes[0]},1\n"))
    assert torch.equal(answered.answer({nodes[0]: 0}).probs, answered.probs)
