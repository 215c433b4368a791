"""Every address of the local API. Reading addresses ask the ledger, acting ones ask the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from pydantic import Field

from appliance.console.acts import NO_ACTS, Acts
from appliance.console.alarm_routes import add_alarms
from appliance.console.answers import add_error_answers
from appliance.console.approval_routes import add_approvals
from appliance.console.bodies import Body, Limit, Said
from appliance.console.check_routes import add_checks
from appliance.console.context_routes import add_context
from appliance.console.full_card import kept_for_alarms
from appliance.console.history_routes import add_history
from appliance.console.ledger_routes import add_ledger_acts
from appliance.console.operating_routes import add_operating
from appliance.console.playbook_routes import add_playbooks
from appliance.console.ticket_routes import add_tickets
from appliance.console.token_routes import add_tokens, holder_of
from appliance.console.tool_routes import add_tools
from appliance.console.usage_routes import add_usage
from appliance.contracts.admission import AdmissionStatus, Arrival
from appliance.contracts.delivery import Channel, DeliveryStatus
from appliance.contracts.errors import Malformed
from appliance.contracts.ports import Core
from appliance.contracts.store import Ledger
from appliance.contracts.token_acts import TokenActs
from appliance.store import views
from appliance.version import VERSION

ReadVitals = Callable[[], Mapping[str, Any]]

_KEEPS_SYNC = ("identity", "coordinator", "sync")  # degraded parts: may be a copy, not reached, lanes that are stopped
_LONGEST_WAIT_S = 120.0  # beyond the bound of any turn's first answer; a client that wants more asks again


class Sentence(Body):
    """Something to be said to the appliance, or by it."""

    text: str = Field(max_length=2000)
    language: str = Field(default="", max_length=16, description="empty: the appliance's own")


class Asked(Sentence):
    """A typed utterance and how long its answer is waited for."""

    wait_s: float = Field(default=30.0, ge=0, le=_LONGEST_WAIT_S, allow_inf_nan=False)
    key: str = Field(default="", max_length=128, description="the same key again is the same request: send it again as you like")
    arrival: Arrival = Field(default=Arrival.QUEUE, description="how it joins what is being done for the same person")
    by: str = Field(default="console", min_length=1, max_length=100, description="who asks: each person has a lane of their own")


class Settlement(Said):
    """A person's word on how an unknown ended."""

    verdict: Literal["done", "not-done", "interrupted"]
    note: str = Field(default="", max_length=2000)


def build_api(
    core: Core,
    ledger: Ledger,
    read_vitals: ReadVitals,
    *,
    language: str,
    languages: Sequence[str] = (),
    acts: Acts = NO_ACTS,
    refuses_talk: Callable[[], str] = lambda: "",
) -> FastAPI:
    """Return the API. ``language`` is used where a caller names none, ``languages`` are all there are (empty: any).

    ``refuses_talk`` says why only alarms are taken at present, and nothing while all is.
    """
    always = [Depends(kept_for_alarms(refuses_talk))]
    api = FastAPI(
        title="Floorhand", version=VERSION, docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json", dependencies=always
    )
    add_error_answers(api)
    _add_state(api, core, read_vitals)
    add_alarms(api, core.alarms, ledger)
    add_operating(api, core.operating, ledger)
    if acts.ledger is not None:
        add_ledger_acts(api, acts.ledger)
    if acts.tokens is not None:
        add_tokens(api, acts.tokens)
    if acts.context is not None:
        add_context(api, acts.context)
    if acts.tickets is not None:
        add_tickets(api, acts.tickets, ledger)
    if acts.checks is not None:
        add_checks(api, acts.checks)
    add_usage(api, ledger)
    if acts.approvals is not None:
        add_approvals(api, acts.approvals)
    if acts.tools is not None:
        add_tools(api, acts.tools)
    if acts.playbooks is not None:
        add_playbooks(api, acts.playbooks)
    if acts.history is not None:
        add_history(api, acts.history)
    _add_ledger(api, core, ledger)
    _add_acts(api, core, languages, language, acts.tokens)
    return api


def _add_state(api: FastAPI, core: Core, read_vitals: ReadVitals) -> None:
    @api.get("/v1/status")
    async def status() -> Mapping[str, Any]:
        return core.status()

    @api.get("/v1/health")
    async def health(response: Response) -> Mapping[str, Any]:
        now = core.status()
        if not now["ready"]:
            response.status_code = 503
        shown = ("ready", "degraded", "needs_attention", "hold", "draining", "clock")
        return {name: now[name] for name in shown if name in now} | {"vitals": read_vitals()}


def _add_ledger(api: FastAPI, core: Core, ledger: Ledger) -> None:
    @api.get("/v1/sessions")
    async def sessions(limit: Limit = 100) -> list[views.Shown]:
        return await views.sessions(ledger, limit=limit)

    @api.get("/v1/turns")
    async def turns(session: str | None = None, limit: Limit = 100) -> list[views.Shown]:
        return await views.turns(ledger, session_id=session, limit=limit)

    @api.get("/v1/turns/{turn_id:path}")
    async def turn(turn_id: str) -> views.Shown:
        return await views.turn(ledger, turn_id)

    @api.get("/v1/admissions")
    async def admissions(status: AdmissionStatus | None = None, limit: Limit = 100) -> list[views.Shown]:
        return await views.admissions(ledger, status=status, limit=limit)

    @api.get("/v1/deliveries")
    async def deliveries(
        status: DeliveryStatus | None = None, channel: Channel | None = None, limit: Limit = 100
    ) -> list[views.Shown]:
        return await views.deliveries(ledger, status=status, channel=channel, limit=limit)

    @api.get("/v1/effects")
    async def effects(limit: Limit = 100) -> list[views.Shown]:
        return await views.effects(ledger, limit=limit)

    @api.get("/v1/confirmations")
    async def confirmations() -> list[views.Shown]:
        return await views.confirmations(ledger)

    @api.get("/v1/heard")
    async def heard(limit: Limit = 100) -> list[views.Shown]:
        return await views.heard(ledger, limit=limit)

    @api.get("/v1/unknowns")
    async def unknowns() -> list[views.Shown]:
        return await views.unknowns(ledger)

    @api.get("/v1/work-orders")
    async def work_orders(limit: Limit = 100) -> list[views.Shown]:
        return await views.work_orders(ledger, limit=limit)

    @api.get("/v1/sync")
    async def sync() -> views.Shown:
        degraded = core.status()["degraded"]
        return await views.sync(ledger) | {"why": {part: degraded[part] for part in _KEEPS_SYNC if part in degraded}}


def _add_acts(api: FastAPI, core: Core, languages: Sequence[str], default: str, token_acts: TokenActs | None) -> None:
    def checked(sentence: Sentence) -> tuple[str, str]:
        """Return text and language. Raises Malformed: nothing is said, or in a language that is not there."""
        if not sentence.text.strip():
            raise Malformed("the sentence is empty", cure='Write it in quotes, as in "what alarms are active".')
        language = sentence.language or default
        if languages and language not in languages:
            cure = f"Languages here: {', '.join(languages)}."
            raise Malformed(f"there is no language {language!r} here", language=language, cure=cure)
        return sentence.text, language

    @api.get("/v1/tags")
    async def tags(keys: str = "") -> list[Mapping[str, Any]]:
        return list(await core.read_tags([key for key in keys.split(",") if key]))

    @api.get("/v1/tags/{key:path}/probe")
    async def probe(key: str) -> Mapping[str, Any]:
        return await core.probe_tag(key)

    @api.post("/v1/ask")
    async def ask(asked: Asked, request: Request) -> Mapping[str, Any]:
        shown = await holder_of(request, token_acts)
        holder = None if shown is None else shown.principal
        by = asked.by if holder is None else holder.by
        answer = await core.ask(*checked(asked), wait_s=asked.wait_s, key=asked.key, arrival=asked.arrival, by=by, holder=holder)
        return {**answer, "limit": shown.limit} if shown is not None and shown.limit else answer

    @api.post("/v1/speak")
    async def speak(sentence: Sentence) -> Mapping[str, Any]:
        return await core.speak(*checked(sentence))

    @api.post("/v1/unknowns/{identity:path}/settle")
    async def settle(identity: str, settlement: Settlement) -> Mapping[str, Any]:
        return await core.settle(identity, settlement.verdict, settlement.note, settlement.by)
