"""The sound-card adapters on the real PortAudio and ALSA, with ALSA's null device as card (it keeps no pace).

In a process of its own, because ALSA reads its configuration once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASOUND = "pcm.floor_mic { type null }\npcm.floor_out { type null }\npcm.!default { type null }\n"
_CODE = """
import json
from appliance.contracts.errors import Unavailable
from appliance.foundation.system_clock import SystemClock
from voice import sound_cards
from voice.card_microphone import CardMicrophone
from voice.card_speaker import CardSpeaker
from voice.sound import Sound

told = {}
microphone = CardMicrophone("floor_mic", SystemClock())
for turn in ("first", "again"):
    microphone.open()
    frames = [microphone.read(2.0) for _ in range(50)]
    told[turn] = [microphone.name, sum(f is not None and len(f.pcm) == 640 for f in frames)]
    microphone.close()
told["rate"] = sound_cards.find("input", "floor_mic")[2]
try:
    CardMicrophone("attic", SystemClock()).open()
except Unavailable as error:
    told["attic"] = error.message
speaker = CardSpeaker("floor_out")
second = speaker.fit(Sound(bytes(2 * 22_050), 22_050))
told["fitted"] = [second.rate_hz, second.seconds]
speaker.play(second)
speaker.drain()
speaker.close()
print(json.dumps(told))
"""


@pytest.mark.req("V1")
@pytest.mark.field("FC-V02", "FC-V03")
def test_a_card_is_found_by_name_opened_at_its_own_rate_and_can_be_opened_again(tmp_path: Path) -> None:
    config = tmp_path / "asound.conf"
    config.write_text(_ASOUND, encoding="ascii")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        capture_output=True, text=True, timeout=60, check=False, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "ALSA_CONFIG_PATH": str(config)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["first"] == ["floor_mic", 50]
    assert told["again"] == ["floor_mic", 50]
    assert told["rate"] == 44_100
    assert told["attic"].startswith("no microphone called “attic”")
    assert told["fitted"][0] == 44_100
    assert told["fitted"][1] == pytest.approx(1.0, abs=0.001)
