"""From an intent or an alarm to a plan. Pure and fast: it reads nothing but what it was given, and runs nothing.

In: an :class:`Intent` (from the phrasebook) or an alarm event (from admission). Out: a :class:`Plan`, or Refused with a
sentence fit to be spoken. Who calls: the conductor, again after a restart if the plan was not stored yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.contracts.flood import FloodNews, FloodSummary
from appliance.contracts.plan import PLAYBOOK_SOURCE, Intent, Plan
from appliance.contracts.plant import Plant
from appliance.contracts.principal import NOBODY, AccessLevel
from appliance.planning import alarm_plan, answers, flood_plan
from appliance.planning.estimate import estimate_s
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.asked_for import RUN
from appliance.planning.playbooks.playbook_steps import RunPlaybook, WriteTag, names_in, texts_of, tool_of
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.planning.playbooks.procedure_book import ProcedureBook
from appliance.planning.replies import REPLIES
from appliance.planning.tongue import Tongue

_NEVER_ALONE = ("what_", "repeat", "value_unknown", "still_active", "alarm_missed", "work_flood")
"""Replies that are only parts of sentences."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans. ``bounds_s`` are the longest times of one call by tool; unknown tools count as none."""

    phrasebook: Phrasebook
    playbooks: Playbooks
    plant: Plant
    bounds_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def procedures(self) -> ProcedureBook:
        """The playbooks as they can be asked for."""
        return ProcedureBook(self.playbooks, self.phrasebook, self.plant)

    def plan(self, intent: Intent, context: Mapping[str, Any], level: AccessLevel = NOBODY.level) -> Plan:
        """Return the plan that answers an utterance of somebody who may do what ``level`` says.

        ``context``: ``last_said`` (text), ``pending`` (open questions, oldest first), ``online`` (bool).

        Raises:
            Refused: it is understood and will not be done; the message is the sentence to say.
            Malformed: no such intent, or a language without phrases.
        """
        if intent.name == RUN:
            return self._timed(self._asked_for(intent, level))
        may = {**context, "may_act": level >= AccessLevel.OPERATOR}
        steps = answers.steps_for(intent, self._tongue(intent.language), may)
        return self._timed(Plan(intent.name, f"phrase:{intent.name}", steps))

    def _asked_for(self, intent: Intent, level: AccessLevel) -> Plan:
        name = str(intent.slots["playbook"])
        given = {key: value for key, value in intent.slots.items() if key not in ("playbook", "refusal")}
        steps = self.procedures.steps_of(name, given, intent.language, level)
        return Plan(intent.name, f"{PLAYBOOK_SOURCE}{name}@{self.playbooks.commit}", steps)

    def plan_alarm(self, alarm: Mapping[str, Any], language: str, rejected: int = 0) -> Plan:
        """Return the plan for an alarm event: its playbook's, or the plain one when no playbook fits.

        ``alarm`` is the admission's payload: ``alarm_id``, ``change``, ``value``, ``unit``, ``source_utc``, ``activation_id``.
        ``rejected``: how many plans for it could not be used; each time less is tried, and in the end it is only told.

        Raises:
            Malformed: an alarm the plant model does not have, or a language without phrases.
        """
        return self._timed(alarm_plan.plan_for(alarm, self._tongue(language), self.playbooks, rejected))

    def announcement(self, alarm: Mapping[str, Any], language: str) -> str:
        """Return the sentence that tells an alarm event without a plan.

        Raises:
            Malformed: an alarm the plant model does not have, or a language without phrases.
        """
        return alarm_plan.announcement_of(alarm, self._tongue(language))

    def plan_flood(self, news: FloodNews, flood: FloodSummary, language: str) -> Plan:
        """Return the plan that tells news of a flood: one sentence or two, under 15 s of speech whatever the numbers.

        Raises:
            Malformed: a language without phrases.
        """
        return self._timed(flood_plan.plan_for(news, flood, self._tongue(language)))

    def leads(self, language: str) -> list[str]:
        """Return every sentence whose audio is worth having before it is needed: whatever is said the same way each time.

        Raises:
            Malformed: a language without phrases.
        """
        tongue = self._tongue(language)
        announced = [
            alarm_plan.lead_of(alarm, tongue) for alarm in self.plant.alarms if "{value}" not in tongue.alarm_text(alarm)
        ]
        cleared = [tongue.reply("alarm_cleared", text=lead) for lead in announced]
        replies = [
            text
            for name, text in self.phrasebook.replies(language).items()
            if not REPLIES[name] and not name.startswith(_NEVER_ALONE)
        ]
        return list(dict.fromkeys([*announced, *self._playbook_texts(tongue), *cleared, *replies]))

    def _playbook_texts(self, tongue: Tongue) -> Iterable[str]:
        """Yield what playbooks say the same way each time: whole sentences, and those that only name the machine."""
        language = tongue.language
        used: dict[str, set[str]] = {}
        for alarm in self.plant.alarms:
            if (playbook := self.playbooks.for_alarm(alarm.playbook, alarm.fault, language)) is not None:
                used.setdefault(playbook.name, set()).add(tongue.asset(alarm.asset))
        for playbook in map(self.playbooks.__getitem__, self.playbooks.names):
            for step in playbook.steps if playbook.speaks(language) else ():
                if step.tool in ("say", "ask"):
                    spoken = [text if isinstance(text, str) else text[language] for _, text in texts_of(step)]
                    yield from (text for text in spoken if not names_in(text))
                    about = [text for text in spoken if set(names_in(text)) == {"alarm.asset"}]
                    yield from (t.replace("{alarm.asset}", asset) for t in about for asset in sorted(used.get(playbook.name, ())))

    def _tongue(self, language: str) -> Tongue:
        return Tongue(self.phrasebook.phrases(language), self.plant)

    def _timed(self, plan: Plan) -> Plan:
        brings_s = {step.id: self._brings_s(str(step.arguments["playbook"])) for step in plan.steps if step.tool == RUN}
        return replace(plan, estimate_s=estimate_s(plan.steps, self.bounds_s, lambda step: brings_s.get(step.id, 0.0)))

    def _brings_s(self, name: str) -> float:
        """How long a playbook can take that a step runs, and those that it runs: no circle was loaded."""
        playbook = self.playbooks.find(name)
        if playbook is None:
            return 0.0
        asked_s = sum(self.bounds_s.get("ask", 0.0) for step in playbook.steps if isinstance(step, WriteTag))
        runs_s = sum(self._brings_s(step.arguments.playbook) for step in playbook.steps if isinstance(step, RunPlaybook))
        return asked_s + runs_s + sum(self.bounds_s.get(tool_of(step), 0.0) for step in playbook.steps)
