"""From an intent or an alarm to a plan. Pure and fast: it reads nothing but what it was given, and runs nothing.

In: an :class:`Intent` (from the phrasebook) or an alarm event (from admission). Out: a :class:`Plan`, or Refused with a
sentence fit to be spoken. Who calls: the conductor, again after a restart if the plan was not stored yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.contracts.flood import FloodNews, FloodSummary
from appliance.contracts.plan import Intent, Plan, Step
from appliance.contracts.plant import Plant
from appliance.planning import alarm_plan, answers, flood_plan
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbook_steps import names_in, texts_of
from appliance.planning.playbooks import Playbooks
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

    def plan(self, intent: Intent, context: Mapping[str, Any]) -> Plan:
        """Return the plan that answers an utterance.

        ``context``: ``last_said`` (text), ``pending`` (open questions, oldest first), ``online`` (bool).

        Raises:
            Refused: it is understood and will not be done; the message is the sentence to say.
            Malformed: no such intent, or a language without phrases.
        """
        steps = answers.steps_for(intent, self._tongue(intent.language), context)
        return self._timed(Plan(intent.name, f"phrase:{intent.name}", steps))

    def plan_alarm(self, alarm: Mapping[str, Any], language: str) -> Plan:
        """Return the plan for an alarm event: its playbook's, or the plain one when no playbook fits.

        ``alarm`` is the admission's payload: ``alarm_id``, ``change``, ``value``, ``unit``, ``source_utc``, ``activation_id``.

        Raises:
            Malformed: an alarm the plant model does not have, or a language without phrases.
        """
        return self._timed(alarm_plan.plan_for(alarm, self._tongue(language), self.playbooks))

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
        return Plan(plan.intent, plan.source, plan.steps, estimate_s=self.estimate_s(plan.steps))

    def estimate_s(self, steps: Iterable[Step]) -> float:
        """Return the longest time the steps can take together, in s, from their bounds.

        Of what runs on a yes and what runs on a no only the longer counts; waiting for the answer has its own clock.
        """
        branches: dict[str, dict[str, float]] = {}
        for step in steps:
            branch = branches.setdefault(step.when.removeprefix("not "), {})
            branch[step.when] = branch.get(step.when, 0.0) + self.bounds_s.get(step.tool, 0.0)
        return round(sum(max(branch.values()) for branch in branches.values()), 3)
