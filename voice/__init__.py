"""The voice room: hears and speaks in a process of its own. The core's end is :mod:`voice.link`.

    microphone -> ear -> listener (wake word, endpointing, denoise, transcriber) -> transcript
    synthesize -> mouth (pronunciation, synthesizer, prepared audio) -> speaker

Read :mod:`voice.service` first: it puts the parts together. Nothing here is imported by the core but ``link`` and ``settings``.
"""
