import sys

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matcha_gnn.testing import tiny_graph, trained_model

import matcha_gnn as mg
from html_page import Page
from matcha_gnn.errors import MatchaError


def test_a_cell_shows_status_and_figures(make):
    result, _ = make()
    text = result._repr_html_()
    page = Page(text)
    assert page.tags.count("svg") == 3
    assert result.status.meaning in page.words
    assert f"{100 * result.changed:.1f} % of 400 labels changed" in page.words
    assert "<script" not in text


@pytest.mark.parametrize("num_classes", [2, 12])
def test_plot_gives_a_figure_that_is_the_callers_own(make, num_classes):
    result, _ = make(num_classes)
    before = plt.get_fignums()
    figure = result.plot()
    assert plt.get_fignums() == before
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["loss", "class shares", "confidence", "hop weights"]
    bars = figure.axes[3].containers
    assert [bar.get_height() for bar in bars[1]] == pytest.approx(result.gamma.tolist())
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx(result.trace.loss)


def test_a_strategy_without_a_loss_has_no_curve_of_one():
    result = mg.adapt(trained_model(), tiny_graph(), strategy=mg.Fitted())
    assert result.trace.loss == []
    assert Page(result._repr_html_()).tags.count("svg") == 2
    titles = [axes.get_title() for axes in result.plot().axes]
    assert titles == ["confidence", "hop weights"]


def test_the_trace_as_a_data_frame(make):
    result, _ = make()
    frame = result.trace.frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame["loss"].tolist() == result.trace.loss
    assert frame.loc[3, "gamma_1"] == pytest.approx(float(result.gamma[1]))


def test_without_pandas_one_line_says_so(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MatchaError, match="frame: needs pandas"):
        make()[0].trace.frame()
