"""Scenario files for servers: a deployment, what it holds, what fails in it, and verbs on a timeline.

    loader      YAML text -> values that know their places, checked against a list of arguments
    triggers    `at`, `after`, `when`, `every`, `for`, `until`: their grammar
    building    checked values -> `model.Scenario`
    timeline    what is due now: pure, for any clock
    player      performs on a deployment what is due
    schema      the JSON Schema for editors, from the same lists of arguments
    bundled     the examples that are installed with the package

docs/SERVER-SCENARIOS.md describes the form for people.
"""
