import matplotlib.pyplot as plt
import pandas as pd
import pytest

import matcha_gnn as mg
from html_page import Page
from matcha_gnn.gamma.testing import tiny_graph, trained_model


def test_a_cell_shows_status_and_figures(make):
    result, _ = make()
    text = result._repr_html_()
    page = Page(text)
    assert page.tags.count("svg") == 1
    assert result.status.meaning in page.words
    assert f"{100 * result.changed:.1f} % of 400 labels changed" in page.words
    assert "<script" not in text


def test_plot_gives_a_figure_that_is_the_callers_own():
    result = mg.adapt(trained_model(), tiny_graph())
    before = plt.get_fignums()
    figure = result.plot()
    assert plt.get_fignums() == before
    assert [axes.get_title() for axes in figure.axes] == ["candidates", "confidence"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [one.name for one in result.candidates]


def test_the_trace_as_a_data_frame(make):
    result, _ = make()
    frame = result.trace.frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame["loss"].tolist() == result.trace.loss
    assert frame.loc[3, "gamma_1"] == pytest.approx(float(result.gamma[1]))
