"""Expressions of aggregation, with their operators and accumulators.

`compiler.compile_expression` is the way in. It reads an expression once per command and returns an
`Evaluate`: a function from a `Frame` to a value. A frame is the dict of variables by name (`ROOT`,
`CURRENT`, those of `let` and of the forms), made for each document by `Scope.frame`. What is not there is
`MISSING`, and null is None; only arrays and accumulators turn the one into the other.

An operator is in one of three places:

* `arithmetic_operators`, `array_operators`, `string_operators`, `date_operators` and `type_operators` have
  those that are functions of evaluated operands, each entered in a `functions.FunctionTable`. `conversions`
  does the work of `$convert`, `regex` compiles patterns, and `pcre` translates them.
* `forms` has those that bind variables, choose a branch or name a field. They compile their operands.
* `compiler` has comparisons, `$and`, `$or`, `$in`, `$literal`, `$meta` and `$rand`; `scripted` those that
  run JavaScript, and `quantiles` the percentiles.

`accumulators` compiles the fields of `$group`, `$bucket` and windows: what is read of each document, and
what is made of the values. A new operator also gets its release in `fakeserver.idl.features`.
"""
