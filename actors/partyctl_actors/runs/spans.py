"""Runs as OpenTelemetry spans, for the extra `otel`: one span for the run, and in it one for each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partyctl_actors.runs.tracing import Delivered, Reported, RunEnded, RunEvent, RunFailed, RunStarted, TurnGranted
from partyctl_base.errors import PartyError

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from opentelemetry.trace import Tracer as SpanTracer


class OpenTelemetryTracer:
    """Makes spans: `run` with the id of the run, and in it a `turn` from its grant to the delivery of what was said.

    A turn has the attributes turn, role, receiver and label; what was said is in none of them. A run that fails has
    the status error and the reason, and so does the turn that it failed in.

    Args:
        tracer: where spans are made; None for that of the global provider.

    Raises:
        PartyError: OpenTelemetry is not installed.
    """

    def __init__(self, tracer: SpanTracer | None = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise PartyError(
                "OpenTelemetry is not installed",
                where="OpenTelemetryTracer()",
                fix="Install it: pip install 'partyctl[otel]'",
            ) from None
        self._trace = trace
        self._tracer = tracer or trace.get_tracer("partyctl")
        self._runs: dict[str, Span] = {}
        self._turns: dict[str, dict[str, Span]] = {}

    def record(self, event: RunEvent) -> None:
        """See `Tracer.record`."""
        if isinstance(event, RunStarted):
            self._runs[event.run_id] = self._tracer.start_span("run", attributes={"partyctl.run": event.run_id})
            self._turns[event.run_id] = {}
            return
        run = self._runs.get(event.run_id)
        if run is None:
            return
        turns = self._turns[event.run_id]
        if isinstance(event, TurnGranted):
            turn = self._tracer.start_span("turn", self._trace.set_span_in_context(run))
            turn.set_attribute("partyctl.turn", event.turn)
            turn.set_attribute("partyctl.role", event.role)
            turn.set_attribute("partyctl.receiver", event.receiver)
            turns[event.role] = turn
        elif isinstance(event, Delivered):
            over = turns.pop(event.envelope.sender.name, None)
            if over is not None:
                over.set_attribute("partyctl.label", event.envelope.label)
                over.end()
        elif isinstance(event, Reported):
            turns.get(event.role, run).add_event(type(event.event).__name__)
        elif isinstance(event, RunEnded | RunFailed):
            self._end(event, run, turns)

    def _end(self, event: RunEnded | RunFailed, run: Span, turns: dict[str, Span]) -> None:
        del self._runs[event.run_id], self._turns[event.run_id]
        for span in (*turns.values(), run):
            if isinstance(event, RunFailed):
                span.set_status(self._trace.StatusCode.ERROR, event.reason)
            span.end()
