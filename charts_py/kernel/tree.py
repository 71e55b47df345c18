"""The construct tree of an environment: stack, concept, object. Importing this module starts Node."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from charts_py.errors import GitopsError
from charts_py.kernel.objects import App, Component, StackChart
from charts_py.rendering import RenderedObject, Rendering


def through_cdk8s(rendering: Rendering) -> Rendering:
    """The same objects in the order in which cdk8s applies them.

    Raises GitopsError if cdk8s gives another object back than its construct was made from: what was judged is then not
    what would be written.
    """
    app = App()
    given = {one.construct: one for one in rendering.objects}
    ordered: list[RenderedObject] = []
    for stack, of_stack in groupby(rendering.objects, key=lambda one: one.stack):
        chart = StackChart(app, stack)
        for concept, of_concept in groupby(of_stack, key=lambda one: one.construct.split("/")[1]):
            Component(chart, concept, [one.manifest for one in of_concept])
        for construct, manifest in chart.manifests():
            if construct not in given or given[construct].manifest != manifest:
                raise GitopsError(f"{construct}: cdk8s changed this object", "this is a defect: please report it")
            ordered.append(given[construct])
    return replace(rendering, objects=tuple(ordered))
