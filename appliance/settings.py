"""The only reader of ``config/`` and the environment: every room's settings in one frozen tree.

``appliance.yaml`` is about this machine, ``policies.yaml`` about how the site wants it to behave, ``plant.yaml`` is the plant
model; ``phrases/`` and ``playbooks/`` are folders their rooms read. Relative paths start at the folder that contains the
configuration folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from appliance.access.settings import AccessSettings
from appliance.alarms.settings import AlarmSettings
from appliance.contracts.plant import Plant
from appliance.delivery.settings import MOST_WEBHOOKS, NoticeSettings, WebhookName, WebhookSettings
from appliance.execution.approval.settings import ApprovalRules, WriteRule
from appliance.execution.tickets.settings import TicketSettings
from appliance.execution.toolbox.settings import ToolSettings
from appliance.memory.settings import MemorySettings
from appliance.session.settings import SessionSettings
from appliance.settings_faults import ConfigFaults, note_faults
from appliance.settings_yaml import Document, read_document
from appliance.store.history_settings import HistorySettings
from appliance.sync.settings import SyncSettings
from drivers.gpio.settings import GpioSettings
from drivers.models.settings import ModelList, ModelPatience
from drivers.mqtt.settings import MqttSettings
from voice.settings import VoiceSettings

M = TypeVar("M", bound=BaseModel)

APPLIANCE_FILE, PLANT_FILE, POLICIES_FILE = "appliance.yaml", "plant.yaml", "policies.yaml"
PHRASES_FOLDER, PLAYBOOKS_FOLDER = "phrases", "playbooks"
SOCKET_BELOW_DATA = "run/api.sock"
# Where the installed service keeps its things, as systemd/floorhand.service says. A technician's shell does not have the
# service's environment, so its configuration folder stands for these.
INSTALLED_FOLDER = Path("/etc/floorhand")
_INSTALLED_ENVIRON = {"FLOORHAND_DATA": "/var/lib/floorhand", "FLOORHAND_SOCKET": "/run/floorhand/api.sock"}
MODELS_FOLDER = "models"
DATABASE_FILE = "ledger.sqlite"
_LONGEST_SOCKET_PATH_BYTES = 107  # sun_path of unix(7) is 108 bytes with its NUL


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConsoleSettings(_Frozen):
    """The local API."""

    socket: str = Field(default=SOCKET_BELOW_DATA, description="Unix socket of the local API, relative to data_dir")
    public_url: str = Field(
        default="",
        pattern="^(https?://[^/?#]+[^?#]*)?$",
        description="https:// address at which the site serves /v1/turns/ of the local API, for links",
    )


class ModelSource(_Frozen):
    """A model file or folder: already here (``path``), or to be fetched by name (``url`` with its hash)."""

    path: Path | None = Field(default=None, description="file or folder of a model that is already on this machine")
    url: str | None = Field(default=None, description="https address `floorhand models fetch` takes it from")
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$", description="SHA-256 of the download, 64 hex digits")

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("a model needs either path or url")
        if self.url is not None and self.sha256 is None:
            raise ValueError("a model with url needs sha256")
        return self


class ApplianceSettings(_Frozen):
    """What ``appliance.yaml`` may hold."""

    origin: str = Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$", description="name of this appliance: a-z, 0-9, - and _")
    language: str = Field(description="language spoken when nothing else says which, one of languages")
    languages: tuple[str, ...] = Field(min_length=1, description="languages understood; each needs phrases/<language>.yaml")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="debug, info, warning or error")
    data_dir: Path = Field(description="folder of the ledger, models, recordings and the socket")
    console: ConsoleSettings = ConsoleSettings()
    models: dict[str, ModelSource] = Field(default_factory=dict, description="name -> where the model is")
    language_models: ModelList = Field(default=(), description="models that may be asked, in this order; empty: none is")
    mqtt: MqttSettings
    voice: VoiceSettings
    sync: SyncSettings
    webhooks: dict[WebhookName, WebhookSettings] = Field(
        default_factory=dict, max_length=MOST_WEBHOOKS, description="name -> where alarms are posted to"
    )
    gpio: GpioSettings = GpioSettings()
    tools: ToolSettings = ToolSettings()
    history: HistorySettings = HistorySettings()

    @model_validator(mode="after")
    def _speaks_its_language(self) -> Self:
        if self.language not in self.languages:
            raise ValueError(f"language {self.language} is not one of languages")
        return self


class Policies(_Frozen):
    """What ``policies.yaml`` may hold."""

    session: SessionSettings = SessionSettings()
    memory: MemorySettings = MemorySettings()
    alarms: AlarmSettings = AlarmSettings()
    language_model: ModelPatience = ModelPatience()
    access: AccessSettings = AccessSettings()
    tickets: TicketSettings = TicketSettings()
    notices: NoticeSettings = NoticeSettings()
    approvals: ApprovalRules = ApprovalRules()
    writes: list[WriteRule] = Field(default_factory=list, description="conditions under which tags may be written")


class Settings(ApplianceSettings, Policies):
    """Everything configured, validated. Paths are absolute.

    ``folder`` is where it was read from; ``config_fault`` is empty unless the last good copy is in use, then it says why.
    """

    folder: Path
    plant: Plant
    config_fault: str = ""

    @property
    def socket(self) -> Path:
        """Unix socket of the local API."""
        return self.data_dir / self.console.socket

    @property
    def database(self) -> Path:
        """File of the ledger."""
        return self.data_dir / DATABASE_FILE

    @property
    def phrases_dir(self) -> Path:
        """Folder of the phrase files, one a language."""
        return self.folder / PHRASES_FOLDER

    @property
    def playbooks_dir(self) -> Path:
        """Folder of the shipped playbooks."""
        return self.folder / PLAYBOOKS_FOLDER

    def model_places(self) -> dict[str, Path]:
        """Return where each model is or should be: the declared ones, and what else was fetched below ``data_dir``."""
        return _model_places(self)

    def describe_model(self, name: str, path: Path) -> dict[str, Any]:
        """Return ``{name, present, path, bytes, cure}`` of one model for people."""
        source = self.models.get(name, ModelSource.model_construct())
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        fetch = f"floorhand models fetch {source.url} --sha256 {source.sha256} --name {name}"
        present = path.exists()
        cure = "" if present else fetch if source.url else f"put it at {path}"
        size = sum(each.stat().st_size for each in files)
        return {"name": name, "present": present, "path": str(path), "bytes": size, "cure": cure}


def load_settings(folder: Path, environ: Mapping[str, str]) -> Settings:
    """Read, inject, validate.

    Raises:
        ConfigFaults: (a ConfigError) with every fault of every file at once.
    """
    folder = folder.resolve()
    return build_settings(folder, folder.parent, environ_of(folder, environ))


def environ_of(folder: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``environ``, completed by the installed places when ``folder`` is the installed service's."""
    return _INSTALLED_ENVIRON | dict(environ) if folder.resolve() == INSTALLED_FOLDER else environ


def build_settings(folder: Path, base: Path, environ: Mapping[str, str]) -> Settings:
    """As :func:`load_settings`, with relative paths starting at ``base`` (a copy of a configuration keeps its meaning)."""
    files = (APPLIANCE_FILE, POLICIES_FILE, PLANT_FILE)
    appliance, policies, plant = (read_document(folder / name, environ) for name in files)
    own = _validated(ApplianceSettings, appliance)
    rules = _validated(Policies, policies)
    model = _validated(Plant, plant)
    if own is not None:
        own = anchored(own, base)
        _check_places(own, folder, appliance)
    faults = [*appliance.faults, *policies.faults, *plant.faults]
    if faults or own is None or rules is None or model is None:
        raise ConfigFaults(faults)
    model = model.model_copy(update={"links": [anchored(link, base) for link in model.links]})
    present = {name: str(path) for name, path in _model_places(own).items() if os.path.exists(path)}  # noqa: PTH110 - pathlib raises where one may not look
    voice = own.voice.model_copy(update={"language": own.language, "models": present})
    return Settings.model_construct(**_fields(own) | {"voice": voice}, **_fields(rules), folder=folder, plant=model)


def find_data_dir(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the data folder as far as a configuration that may be broken tells, else the environment's, else ``var``."""
    environ = environ_of(folder, environ)
    tree = read_document(folder / APPLIANCE_FILE, environ).tree
    told = tree.get("data_dir") if isinstance(tree, dict) else None
    return folder.resolve().parent / str(told or environ.get("FLOORHAND_DATA") or "var")


def find_socket(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the local API's socket without validating anything, so that a broken configuration hides no running service."""
    environ = environ_of(folder, environ)
    tree = read_document(folder / APPLIANCE_FILE, environ).tree
    console = tree.get("console") if isinstance(tree, dict) else None
    told = console.get("socket") if isinstance(console, dict) else None
    return find_data_dir(folder, environ) / str(told or environ.get("FLOORHAND_SOCKET") or SOCKET_BELOW_DATA)


def _validated(model: type[M], document: Document) -> M | None:
    if document.faults and document.tree is None:
        return None  # unreadable: its one fault is said already
    try:
        return model.model_validate(document.tree)
    except ValidationError as error:
        note_faults(document, model, error)
        return None


def _check_places(own: ApplianceSettings, folder: Path, document: Document) -> None:
    """Note what validation of single values cannot see: files that must be there, a socket path the kernel takes."""
    for name in ("language", "models"):
        if name in document.tree["voice"]:
            document.fault(
                ("voice", name), "unknown key", f"Write {name} at the top level: there is one for the whole appliance."
            )
    for language in own.languages:
        if not (folder / PHRASES_FOLDER / f"{language}.yaml").is_file():
            cure = f"Add {PHRASES_FOLDER}/{language}.yaml, or remove {language} from languages."
            document.fault(("languages",), f"language {language} has no phrases", cure)
    if not (folder / PLAYBOOKS_FOLDER).is_dir():
        document.fault((), "the folder playbooks is missing", f"Create {PLAYBOOKS_FOLDER}/ beside {APPLIANCE_FILE}.")
    if len(bytes(own.data_dir / own.console.socket)) > _LONGEST_SOCKET_PATH_BYTES:
        cure = f"Choose a shorter data_dir or console.socket: {_LONGEST_SOCKET_PATH_BYTES} bytes in all."
        document.fault(("console", "socket"), "the path of the socket is too long for the kernel", cure)


def _model_places(own: ApplianceSettings) -> dict[str, Path]:
    fetched = own.data_dir / MODELS_FOLDER
    found = sorted(path for path in fetched.iterdir() if not path.name.startswith(".")) if os.path.isdir(fetched) else []  # noqa: PTH112 - pathlib raises where one may not look
    return {path.name: path for path in found} | {name: model.path or fetched / name for name, model in own.models.items()}


def _fields(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def anchored(model: M, base: Path) -> M:
    """Return ``model`` with every relative :class:`~pathlib.Path` in it made absolute, starting at ``base``."""
    moved = {name: _anchored_value(value, base) for name, value in _fields(model).items()}
    return model.model_copy(update={name: value for name, value in moved.items() if value != getattr(model, name)})


def _anchored_value(value: Any, base: Path) -> Any:
    if isinstance(value, Path):
        return base / value
    if isinstance(value, BaseModel):
        return anchored(value, base)
    if isinstance(value, tuple | list):
        return type(value)(_anchored_value(each, base) for each in value)
    if isinstance(value, dict):
        return {name: _anchored_value(each, base) for name, each in value.items()}
    return value
