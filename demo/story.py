"""The reference story: what happens at line 3, in order, each step waited for by what the core itself reports.

The worker is only ever heard through the microphone. Everything measured is taken from the ledger, the plant and the
coordinator, not from this script's own idea of what should have happened.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.progress import Progress
from demo.site import Site
from demo.worker_voice import render_worker

LINES = (
    ("yes, confirm", 1.1),
    ("what is the temperature of motor three", 0.95),
    ("set the fan speed of motor three to maximum", 1.05),
    ("yes, confirm", 1.0),
    ("no", 1.0),
    ("set the fan speed of motor three to eighty percent", 1.0),
    ("yes, confirm", 1.05),
)
"""What the worker says, in order, and how much slower than Piper's own speed."""

_SNR_DB = 15.0
_SPEECH_WITHIN_S = 60.0
_TURN_WITHIN_S = 45.0
_LINK_WITHIN_S = 90.0  # the longest pause between two looks for a coordinator that was away is 60 s


@dataclass(slots=True)
class Said:
    """One thing the worker said, and what became of it."""

    said: str
    heard: str
    intent: str
    end_of_speech_to_intent_ms: float


@dataclass(slots=True)
class Told:
    """What the story collected for the summary."""

    said: list[Said] = field(default_factory=list)
    work_order: str = ""


class Story:
    """Runs the story on an opened site."""

    def __init__(self, site: Site, progress: Progress) -> None:
        self._site = site
        self._progress = progress
        self._recorded: asyncio.Queue[tuple[str, Path]] = asyncio.Queue()
        self._recording: asyncio.Task[None] | None = None
        self.told = Told()

    async def run(self) -> Told:
        """Tell it to the end.

        Raises:
            TimeoutError: something that must happen did not; the message says what.
        """
        try:
            await self._over_temperature()
            await self._confirm_work_order()
            await self._network_goes()
            await self._killed_while_writing()
            await self._network_returns()
        finally:
            if self._recording is not None:
                self._recording.cancel()
        return self.told

    async def _record_lines(self) -> None:
        """Let the worker record the lines, while the appliance speaks: Piper at another speed, noise mixed in."""
        for number, (text, length_scale) in enumerate(LINES, 1):
            path = self._site.folder / "worker" / f"{number:02d}.wav"
            await asyncio.to_thread(render_worker, text, path, length_scale=length_scale, snr_db=_SNR_DB, seed=number)
            self._recorded.put_nowait((text, path))

    # 1 and 2 -----------------------------------------------------------------------------------------------------
    async def _over_temperature(self) -> None:
        self._progress.chapter("Motor 3 overheats; the PLC gateway publishes the alarm")
        await self._site.plant.order(do="overheat", asset="motor_3")
        alarm = await self._site.client.until(
            "/v1/alarms", lambda rows: next(iter(rows), None), what="the alarm stored", within_s=_TURN_WITHIN_S
        )
        self._progress.note(f"stored: {alarm['alarm_id']} on {alarm['asset']}, {alarm['value']} {alarm['unit']}")
        await self._question_asked()
        self._recording = asyncio.create_task(self._record_lines(), name="worker records lines")
        await self._question_heard("over-temperature alarm")

    # 3 -----------------------------------------------------------------------------------------------------------
    async def _confirm_work_order(self) -> None:
        self._progress.chapter("The worker agrees")
        await self._speak("yes, confirm", intent="confirm")
        orders = await self._site.client.until(
            "/v1/work-orders", lambda rows: [r for r in rows if r["number"]], what="the work order numbered", within_s=30.0
        )
        self.told.work_order = str(orders[0]["number"])
        self._progress.note(f"work order {self.told.work_order} exists at the coordinator")
        await self._quiet()

    # 4 -----------------------------------------------------------------------------------------------------------
    async def _network_goes(self) -> None:
        self._progress.chapter("The network goes: the coordinator is stopped")
        await self._site.coordinator.stop()
        await self._announced("The coordinator cannot be reached")
        await self._speak("what is the temperature of motor three", intent="read_tag")
        await self._quiet()
        await self._speak("set the fan speed of motor three to maximum", intent="set_tag_to_limit")
        await self._question_heard("fan speed read back as a question")
        await self._speak("yes, confirm", intent="confirm")
        await self._tag_reads("motor_3.fan_speed", 100)
        await self._quiet()
        self._progress.chapter("A second alarm, still offline")
        await self._site.plant.order(do="pressure_drop", asset="pump_3")
        await self._question_heard("low-pressure alarm")
        await self._speak("no", intent="deny")
        await self._quiet()

    # 5 -----------------------------------------------------------------------------------------------------------
    async def _killed_while_writing(self) -> None:
        self._progress.chapter("The core is killed between a Modbus write and its reply")
        await self._speak("set the fan speed of motor three to eighty percent", intent="set_tag")
        await self._question_heard("fan speed read back as a question")
        heard_so_far = len(self._site.plant.reports)
        await self._site.plant.order(do="hold_write_reply", seconds=5)
        await self._say_into_microphone()
        written = await self._site.plant.report(
            lambda r: r.get("event") == "write_received", within_s=_SPEECH_WITHIN_S, since=heard_so_far
        )
        await self._site.core.kill()
        self._progress.note(f"write of {written['value']} received by the PLC, reply held, core killed with SIGKILL")
        await self._site.start_core()
        await self._collect("yes, confirm", "confirm")
        settled = await self._site.client.until(
            "/v1/effects",
            lambda rows: [r for r in rows if r["was_unknown"] and r["status"] in ("applied", "none")],
            what="the unknown write settled by reading back",
            within_s=60.0,
        )
        self._progress.note(f"the write was unknown; reading back settled it as {settled[0]['status']}")
        await self._tag_reads("motor_3.fan_speed", 80)
        await self._quiet()

    # 6 -----------------------------------------------------------------------------------------------------------
    async def _network_returns(self) -> None:
        self._progress.chapter("The coordinator returns")
        await self._site.start_coordinator()
        await self._announced("The coordinator is back")
        await self._site.client.until(
            "/v1/sync",
            lambda sync: all(lane["pending"] == 0 for lane in sync["lanes"] if lane["lane"] in ("P0", "P1", "P2")),
            what="the operation log caught up",
            within_s=60.0,
        )
        await self._quiet()

    # ----------------------------------------------------------------------------------------------------------------
    async def _say_into_microphone(self) -> str:
        """Give the microphone the worker's next line."""
        text, path = await self._recorded.get()
        path.rename(self._site.microphone / path.name)
        self._progress.said("worker", text)
        return text

    async def _speak(self, text: str, *, intent: str) -> None:
        """Say the next line, which is ``text``, and wait for what came of it."""
        said = await self._say_into_microphone()
        assert said == text, f"the script says “{text}” where the worker recorded “{said}”"
        await self._collect(text, intent)

    async def _collect(self, text: str, intent: str) -> None:
        """Wait until the ledger tells what became of the newest thing said, and check that it was heard right."""
        known = len(self.told.said)
        heard = await self._site.client.until(
            "/v1/heard?limit=1000",
            lambda rows: rows[known] if len(rows) > known and rows[known]["intent"] else None,
            what=f"“{text}” heard",
            within_s=_SPEECH_WITHIN_S,
        )
        said = Said(text, heard["text"], heard["intent"], heard["end_of_speech_to_intent_ms"])
        self.told.said.append(said)
        self._progress.note(f"heard “{said.heard}” -> {said.intent}, {said.end_of_speech_to_intent_ms} ms after the last word")
        if said.intent != intent:
            raise AssertionError(f"“{text}” was taken for {said.intent} (heard “{said.heard}”), not {intent}")

    async def _question_asked(self) -> None:
        await self._site.client.until(
            "/v1/confirmations", lambda rows: rows, what="the question about a work order", within_s=_TURN_WITHIN_S
        )

    async def _question_heard(self, what: str) -> None:
        """Wait until a question is open and its words have left the speaker."""
        await self._site.client.until(
            "/v1/confirmations", lambda rows: any(r["asked"] for r in rows), what=f"a question after the {what}",
            within_s=_SPEECH_WITHIN_S,
        )  # fmt: skip
        await self._quiet()

    async def _announced(self, words: str) -> None:
        """Wait until the appliance has said of itself what changed; a worker does not talk over that."""
        await self._site.client.until(
            "/v1/deliveries?channel=speech",
            lambda rows: any(row["text"].startswith(words) and row["status"] == "delivered" for row in rows),
            what=f"“{words}” said",
            within_s=_LINK_WITHIN_S,
        )
        await self._quiet()

    async def _quiet(self) -> None:
        """Wait until no turn runs and everything queued for speech was said."""
        await self._site.client.until(
            "/v1/status", lambda status: status["turns_running"] == 0, what="the turn ended", within_s=_TURN_WITHIN_S
        )
        rows = await self._site.client.until(
            "/v1/deliveries?channel=speech",
            lambda rows: rows if all(r["status"] not in ("pending", "attempting") for r in rows) else None,
            what="the appliance finished speaking",
            within_s=_SPEECH_WITHIN_S,
        )
        for line in self._new_speech(rows):
            self._progress.said("floorhand", line)

    def _new_speech(self, rows: list[dict[str, Any]]) -> list[str]:
        fresh = [r for r in reversed(rows) if r["status"] == "delivered" and r["id"] not in self._progress.shown]
        self._progress.shown.update(r["id"] for r in fresh)
        return [f"{r['lead']} {r['text']}".strip() for r in fresh]

    async def _tag_reads(self, key: str, value: float) -> None:
        await self._site.client.until(
            f"/v1/tags?keys={key}", lambda rows: rows and rows[0]["value"] == value, what=f"{key} = {value}",
            within_s=_TURN_WITHIN_S,
        )  # fmt: skip
