"""The settings of the service, validated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from emsco.exceptions import ServiceError

STATE_FILE = "emsco-state.sqlite"
DEPLOYMENT = "emsco"  # the default name, for a state that is not shared
# URL schemes of shared states; not in `state`, which takes seconds to import, because the parent of
# workers needs them.
REDIS = ("redis", "rediss", "unix")
POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")

PERIODS = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0}  # in UTC


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of the service.

    Each is the option of `emsco serve` with its name, whose help says what it does.
    """

    model: Path = Path("model.emsco")
    sources: Path = Path("sources.toml")
    trust: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    state: str | None = field(default=None, repr=False)  # may contain a password
    allow_volatile_state: bool = False
    folder: Path = Path(".")  # of the SQLite file, if there is no other state
    log: Path | None = None
    log_values: bool = False
    on_log_failure: str = "drop"
    deadline: float | None = None
    max_cost: float | None = None
    shadow: bool = False
    canary: Path | None = None
    share: float = 0.05
    allow_uncertified: bool = False
    concurrency: int = 64
    queue: int = 64
    drain: float = 30.0
    max_body: int = 1_000_000
    max_rows: int = 1000
    max_key: int = 256
    body_timeout: float = 10.0
    idle_timeout: float = 30.0
    deployment: str = ""  # "" becomes `emsco`; a shared state needs a name
    audit: float = 0.02
    label_after: float = 30 * 86_400.0  # in seconds; the option is in days
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    max_changed: int | None = None
    per: str = ""
    confidence: float = 0.99
    check_seconds: float = 1.0
    rows_per_second: float = 10.0

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int | float) or not isfinite(value):
                raise ServiceError(f"{flag(name)} must be a number, got {value!r}.")
            if not least <= value <= most:
                raise ServiceError(
                    f"{flag(name)} must be between {least:g} and {most:g}, got {value:g}."
                )
        for name in ("deadline", "max_cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ServiceError(f"{flag(name)} must be above 0, got {value:g}.")
        if self.workers > 1 and not self.is_shared:
            raise ServiceError(
                f"--workers {self.workers} needs --state redis://... or postgresql://...: several "
                "processes must share their ids, their budgets and their list of failing sources."
            )
        if not self.deployment and self.is_shared:
            raise ServiceError(
                "A shared state needs --deployment NAME: ids are stored under this name, and "
                "without it a service with another model would return the answers of this one. Use "
                "the same name for processes that answer for each other, and different names "
                "otherwise."
            )
        if self.deployment and not _NAME.fullmatch(self.deployment):
            raise ServiceError(
                "--deployment must begin with a letter or digit and consist of at most 64 "
                f"characters a-z, A-Z, 0-9, . _ -, got {self.deployment!r}."
            )
        object.__setattr__(self, "deployment", self.deployment or DEPLOYMENT)
        if self.log_values and self.log is None:
            raise ServiceError("--log-values needs --log FOLDER: values are written to the log.")
        if self.shadow and not self.log_values:
            raise ServiceError(
                "--shadow needs --log FOLDER and --log-values: the cascade is certified later on "
                "the logged values."
            )
        if self.shadow and self.canary is not None:
            raise ServiceError(
                "--shadow and --canary cannot be combined: in shadow mode, the final model answers "
                "every key."
            )

        if self.max_changed is not None or self.per:
            self._check_promise()

    def _check_promise(self) -> None:
        """Check the promise of spot checks."""
        if self.max_changed is None or not self.per:
            raise ServiceError("--max-changed and --per belong together: give both, or neither.")
        rows, seconds = self.period
        if not rows and not seconds:
            raise ServiceError(
                f"--per must be a number of rows, or one of {', '.join(PERIODS)}, got {self.per!r}."
            )
        if self.max_changed < 1:
            raise ServiceError(
                f"--max-changed must be at least 1, got {self.max_changed}: with 0, every row "
                "would be checked. A longer period (--per) allows more."
            )
        if rows and self.max_changed >= rows:
            raise ServiceError(
                f"--max-changed must be below --per, got {self.max_changed} of {rows} rows: this "
                "promises nothing."
            )
        if not 0 < self.confidence < 1:
            raise ServiceError(f"--confidence must be between 0 and 1, got {self.confidence:g}.")
        if self.shadow:
            raise ServiceError(
                "--max-changed and --shadow cannot be combined: in shadow mode, the final model "
                "answers every key."
            )

    @property
    def period(self) -> tuple[int, float]:
        """The length of a period of spot checks: rows, or seconds; the other one is 0."""
        if self.per.isascii() and self.per.isdecimal():
            return int(self.per), 0.0
        return 0, PERIODS.get(self.per, 0.0)

    @property
    def is_shared(self) -> bool:
        """Whether several processes can share the state."""
        scheme, found, _ = (self.state or "").partition("://")
        return bool(found) and scheme in (*REDIS, *POSTGRES)

    @property
    def state_address(self) -> str:
        """The URL of the state, or the path of its default file."""
        return str(self.folder / STATE_FILE) if self.state is None else self.state

    @property
    def url(self) -> str:
        """The URL of the service."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def flag(name: str) -> str:
    """Return the command-line option of a setting."""
    return f"--{name.replace('_', '-')}"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MANY = 1_000_000_000
_RANGES = {
    "port": (0, 65_535),
    "workers": (1, 1_000),
    "concurrency": (1, 100_000),
    "queue": (0, 100_000),
    "drain": (0, 86_400),
    "max_body": (100, _MANY),
    "max_rows": (1, 1_000_000),
    "max_key": (1, 100_000),
    "body_timeout": (0.1, 86_400),
    "idle_timeout": (0.1, 86_400),
    "audit": (0, 1),
    "share": (0, 1),
    "label_after": (0, _MANY),
    "metrics_port": (0, 65_535),
    "max_changed": (-_MANY, _MANY),
    "check_seconds": (0, _MANY),
    "rows_per_second": (0, _MANY),
}
