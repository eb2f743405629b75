"""Scripts: JavaScript for the operators that run it.

`javascript` is the Python side: `Runtime` holds one world of QuickJS for all scripts of a command, `pack` and
`unpack` carry values over as JSON, `recognise` reads scripts that only sleep, without any JavaScript.
`javascript_prelude.js` is the other side, run once in each new world: the shell's types and functions, a
clock that sleeping moves, and the same format of values. Change the two together.

`fakeserver.commands.scripting` implements `port.engine.Scripts` with it: it makes the world when a command
first needs one, and has the command wait for what its scripts slept. `filters` and `expressions.scripted`
know that protocol only.
"""
