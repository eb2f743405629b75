"""The scripts of one command, and the time that they spend asleep.

No script waits. It runs at once and returns how long it slept; where it has slept longer than the command has
waited, the command parks for the rest and is then run again from the start, by which time its scripts have
waited enough. A command that changes documents thus changes nothing before it has waited, and maxTimeMS,
killOp, a step-down or a client that leaves end it as they end any command that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.admission.invocations import needs_primary
from fakeserver.errors import CommandError
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.scripts.javascript import Runtime, ScriptReply, Waiting

_javascript = at_first_use("fakeserver.storage.scripts.javascript")

INSTALL: Final = "pip install 'pushbackd[javascript]'"
LONGEST_SECONDS: Final = 60.0
"""Seconds that a command without maxTimeMS waits for a script that does not end."""

_LONGEST_SLEEP: Final = 30 * 24 * 3600.0
_NO_ENGINE: Final = 31264


class ScriptRunner:
    """Runs a command's scripts, and has the command wait as long as they slept.

    Durations are seconds. What it raises ends the run: `Park` to have the command run again later.
    """

    def __init__(self, ctx: CommandContext) -> None:
        self._ctx = ctx
        self._slept = 0.0
        """Seconds that scripts slept in this run of the command."""
        self._waited = 0.0
        """Seconds that the command has waited for them in earlier runs."""
        self._seed: int | None = None
        self._world: Runtime | None = None
        self._before = 0.0
        """Seconds that scripts had slept when this world was made."""
        self._endless = False
        self._until = 0.0
        """The instant until which the command parked last."""

    # Calls of the command.

    def run_again(self) -> None:
        """Begin another run of the command, perhaps before its time.

        Raises `CommandError` 50 if maxTimeMS is over, 11602 for a write on what is no primary any more.
        """
        if not self._until:
            return
        request, now, node = self._ctx.request, self._ctx.now, self._ctx.node
        deadline = request.deadline
        if deadline is not None and now >= deadline:
            raise CommandError(ErrorCode.MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
        bound = needs_primary(request.spec.kind, request.spec.name, request.command or {})
        if bound and not node.is_mongos and not node.is_primary:
            raise CommandError(ErrorCode.INTERRUPTED_DUE_TO_REPL_STATE_CHANGE, "operation was interrupted")
        if now < self._until:
            if self._endless:
                self._park(self._until - now)
            self._waited -= self._until - now
        self._until = 0.0
        self._start_over()

    def statement_done(self) -> None:
        """Account for a statement that will not be run again."""
        if self._slept:
            self._waited = max(0.0, self._waited - self._slept)
            self._start_over()

    def _start_over(self) -> None:
        # A new world, as scripts may have left variables: every run must see what the first one saw.
        self._slept, self._world = 0.0, None

    def settle(self) -> None:
        """Raise `Park` if scripts slept longer than the command has waited for them."""
        left = self._slept - self._waited
        if left > 0:
            self._waited = self._slept
            self._park(left)

    def _park(self, seconds: float) -> None:
        """Raise `Park`. A change of the topology has the command run again at once: it may be none of its."""
        deadline = self._ctx.request.deadline
        self._until = self._ctx.now + seconds
        raise Park(
            self._ctx.node.topology_changed, self._until if deadline is None else min(self._until, deadline)
        )

    # Calls of operators.

    def where(self, code: str) -> Callable[[Any], bool]:
        """Return a `$where` as a predicate. Raises `CommandError` where it cannot be run."""
        if not self._ctx.node.javascript:
            raise CommandError(ErrorCode.BAD_VALUE, "no globalScriptEngine in $where parsing")
        if not _javascript.available():
            return self._waiting(code)
        number = self._compile(code)

        def holds(document: Any) -> bool:
            return bool(self._run(lambda world: world.where(number, document)))

        return holds

    def function(self, code: str) -> Callable[..., ScriptReply]:
        """Return a script as a function of `this` and a list of arguments. Raises `CommandError`."""
        self._check_engine()
        number = self._compile(code)

        def call(this: Any, arguments: list[Any]) -> ScriptReply:
            reply: ScriptReply = self._run(lambda world: world.call(number, this, arguments))
            return reply

        return call

    def define(self, name: str, value: Any) -> None:
        """Set a global variable of the scripts that follow. Raises `CommandError` where none can be run."""
        self._check_engine()
        self._own_world().define(name, value)

    def _check_engine(self) -> None:
        if not self._ctx.node.javascript or not _javascript.available():
            reason = "" if not self._ctx.node.javascript else f": {INSTALL}"
            raise CommandError(
                _NO_ENGINE,
                f"Cannot run server-side javascript without the javascript engine enabled{reason}",
            )

    def _waiting(self, code: str) -> Callable[[Any], bool]:
        """Return a script that only waits, which takes no engine. Raises `CommandError` 2 for any other."""
        found: Waiting | None = _javascript.recognise(code)
        if found is None:
            raise CommandError(
                ErrorCode.BAD_VALUE,
                "no globalScriptEngine in $where parsing: this fake server runs scripts that only wait, such "
                f"as 'sleep(1000) || true', and others with an extra: {INSTALL}",
            )
        milliseconds, holds = found

        def predicate(_document: Any) -> bool:
            self._slept += milliseconds / 1000
            self._stop_if_late()
            return holds

        return predicate

    def _compile(self, code: str) -> int:
        return self._own_world().compile(code)

    def _own_world(self) -> Runtime:
        world = self._world
        if world is None:
            node, deadline = self._ctx.node, self._ctx.request.deadline
            # One seed for all runs of a command: Math.random must not make another run another result.
            if self._seed is None:
                self._seed = int(node.rng.random() * (1 << 31))
            begun = node.clock.utc() - self._waited + self._slept
            left = _LONGEST_SLEEP if deadline is None else deadline - self._ctx.now + self._waited
            world = self._world = _javascript.Runtime(
                epoch=begun * 1000, longest=max(left - self._slept, 0.0) * 1000, seed=self._seed
            )
            self._before = self._slept
        return world

    def _run(self, work: Callable[[Runtime], Any]) -> Any:
        """Run a script. Raises `CommandError` for what it throws, once it has slept; `Park`."""
        if self._endless:
            raise _javascript.failed(
                f"a script took more than {_javascript.CPU_SECONDS} s of CPU time, or all of a command more"
                f" than {_javascript.TOTAL_SECONDS} s: this fake server has no more for them"
            )
        world = self._own_world()
        try:
            result = work(world)
        except _javascript.RunawayError:
            self._endless = True
            self._park(LONGEST_SECONDS)
        except CommandError:
            self._slept = self._before + world.slept / 1000
            self._stop_if_late()
            self.settle()
            raise
        self._slept = self._before + world.slept / 1000
        self._stop_if_late()
        return result

    def _stop_if_late(self) -> None:
        """Park at once if the command's time is over before it has waited for its scripts."""
        deadline = self._ctx.request.deadline
        if deadline is not None and self._ctx.now + self._slept - self._waited >= deadline:
            self.settle()
