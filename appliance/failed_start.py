"""A start that cannot have its ledger: says and publishes so before the process ends, for whoever stands at the machine.

In: settings and what went wrong. Out: one sentence and one retained message, if voice and broker can be had. The service manager
then starts the process again, and it says the same no more often than every half an hour: a restart loop is neither silent nor a
nuisance.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.errors import Corrupt, FloorhandError, StorageFullError, Unavailable
from appliance.delivery.last_words import LastWords, Trouble, memo_file
from appliance.delivery.phrasing import Phrasing
from appliance.foundation.id_source import SystemIds
from appliance.foundation.supervisor import Degraded
from appliance.foundation.system_clock import SystemClock
from appliance.ledger_standing import REPLIES
from appliance.planning.phrases import Phrasebook
from appliance.settings import Settings
from appliance.store.faults import StorageFault, fault_of
from drivers.mqtt.session import MqttSession
from drivers.mqtt.topics import IncomingMessage
from voice.link import VoiceLink

log = logging.getLogger(__name__)

NOTICE_S = 45.0
"""How long voice and broker are waited for: a voice process on a slow card needs 30 s to its first word."""
PAUSE_S = 20.0
"""From the notice to the end of the process: storage that is away is not looked at every two seconds."""


async def tell_failed_start(settings: Settings, error: FloorhandError, *, pause_s: float = PAUSE_S) -> None:
    """Say and publish what keeps the core from starting; return after a pause, whether anybody heard of it or not."""
    clock = SystemClock()
    ids = SystemIds(clock)
    log.error("start.failed", extra={"why": error.message, "code": error.code})
    try:
        async with asyncio.timeout(NOTICE_S):
            await _tell(settings, clock, ids, Trouble(reply_of(error), error.message))
    except (TimeoutError, OSError) as fault:
        log.warning("start.notice_not_taken", extra={"within_s": NOTICE_S, "why": str(fault)})
    await asyncio.sleep(pause_s)


def reply_of(error: FloorhandError) -> str:
    """Return the name of the sentence that says what keeps the core from starting. It takes nothing in meanwhile."""
    match error:
        case StorageFullError():
            return REPLIES[StorageFault.USED_UP]
        case Corrupt():
            return "ledger_damaged"
        case Unavailable():
            return REPLIES[fault_of(error)]
    return "part_degraded"


async def _tell(settings: Settings, clock: Clock, ids: IdSource, trouble: Trouble) -> None:
    """Return once it is said and published. Alarms the broker brings meanwhile stay unacknowledged: it brings them again."""
    book = await asyncio.to_thread(Phrasebook.load, settings.phrases_dir, settings.plant)
    wording = Phrasing({language: book.replies(language) for language in settings.languages}, settings.plant)
    degraded = Degraded()
    with tempfile.TemporaryDirectory(prefix="floorhand-") as runtime:  # where the socket usually is may be what cannot be written
        voice = VoiceLink(settings.voice, Path(runtime), clock, ids, degraded)
        broker = MqttSession(settings.mqtt, clock, degraded, _never_taken)
        words = LastWords(
            voice, broker, wording, clock, ids,
            language=settings.language, client_id=settings.mqtt.client_id, memo=memo_file(settings.socket, settings.data_dir),
        )  # fmt: skip
        words.tell(trouble)
        tasks = [asyncio.create_task(run()) for run in (voice.run, broker.run, words.run)]
        try:
            await words.said.wait()
            await words.published.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _never_taken(message: IncomingMessage) -> None:
    await asyncio.Event().wait()
