"""Save and load models; a file is written whole or not at all, and read only if no byte changed."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
import sklearn

from emsco._utils.atomic_write import write_whole
from emsco.cascade import CascadeClassifier
from emsco.core.front import ParetoFront
from emsco.exceptions import ArtifactError, CertificateWarning, warn
from emsco.io import _json
from emsco.io._cascades import cascade_from, cascade_to
from emsco.io._core_values import (
    MEASURED,
    Data,
    candidates_from,
    candidates_to,
    costs_from,
    costs_to,
    expect,
    expect_keys,
    expect_texts,
    front_from,
    measured_to,
    records_from,
    records_to,
)
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.io._searches import search_from, search_to
from emsco.io._zip import Member, open_zip, pack, read_member, read_parts
from emsco.search import CascadeSearchCV

FORMAT = 2
_MANIFEST = "manifest.json"
_MEMBER = re.compile(r"arrays/\d{1,5}\.npy|stages/\d{1,5}\.skops|final/0\.onnx")
_KEYS = ("format", "versions", "kind", "model", "members", "certificate", "fingerprint")
_SEAL = b"emsco sha256 "  # then the hash of the manifest, which holds those of all other members
_SEAL_SIZE = len(_SEAL) + 64


def dump(model: Any, path: str | os.PathLike[str], *, rows: bool = True) -> None:
    """Write a fitted cascade, a front or a fitted search to a file.

    The file is a zip with a readable `manifest.json`. Cascades of the default classifier are data
    only; other estimators are written by skops. A search is saved with every stage it has fitted so
    far, but without its training rows. The file is written whole or not at all.

    Parameters
    ----------
    model : CascadeClassifier, ParetoFront or CascadeSearchCV
        The model to save; a cascade or a search must be fitted.
    path : str or path
        The file to write; `.emsco` is the usual extension.
    rows : bool, default=True
        Whether to save salted hashes of the rows that the model was fitted, scored or certified on,
        so that they are recognised later. False: a certificate of the loaded model cannot determine
        whether its rows were already used, and its sentence says so.

    Raises
    ------
    ArtifactError
        If something in the model cannot be saved, or the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from emsco import CascadeClassifier, dump, load
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(200) < 0.5, "yes", "no")
    >>> X = rng.normal(size=(200, 2)) + 2 * (y == "yes")[:, None]
    >>> cascade = CascadeClassifier(threshold=0.9).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     dump(cascade, f"{folder}/model.emsco")
    ...     again = load(f"{folder}/model.emsco")
    >>> bool((again.predict_proba(X) == cascade.predict_proba(X)).all())
    True
    """
    name = next((name for name, kind in _KINDS.items() if type(model) is kind[0]), None)
    if name is None:
        raise ArtifactError(
            f"Only a CascadeClassifier, a ParetoFront or a CascadeSearchCV can be saved, got a "
            f"{type(model).__name__}."
        )
    writer = MemberWriter(rows=rows)
    try:
        data = _KINDS[name][1](model, writer)
        certificate = _certificate_to(writer, model)
        listed = {known: _listed(len(part), [part]) for known, part in writer.members.items()}
        content = {"kind": name, "model": data, "members": listed}
        manifest = {
            "format": FORMAT,
            "versions": _versions(),
            **content,
            "certificate": certificate,
            "fingerprint": _sha256([_json.write(content)]),
        }
        written = _json.write(manifest, indent=1)
        _json.parse(written)  # do not write what `load` would refuse
        members = {_MANIFEST: written, **writer.members}
        parts = list(pack(members, _SEAL + _sha256([written]).encode("ascii")))
    except ArtifactError as error:
        raise ArtifactError(f"The {name} cannot be saved: {error}.") from error
    write_whole(path, parts)


def load(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model written by `dump`; it decides exactly as before, bit for bit.

    Every byte of the file is checked before anything is built from it. This detects damage, but not
    forgery: use signatures to decide whether to trust a file from others.

    A certificate in the file becomes the model's `certificate_` and is checked against the cascade
    in the file. If it is about another cascade, a `CertificateWarning` is raised, and
    `certificate_.holds_for(model)` is False.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : sequence of str, default=()
        If stages are not the default classifier: types that may be loaded although skops does not
        trust them by default. The error message names the types that a file needs.

    Raises
    ------
    ArtifactError
        If the file is damaged, forged, too large, of another format, or needs types to be trusted.

    Examples
    --------
    >>> from emsco import load
    >>> load("no such file")
    Traceback (most recent call last):
    emsco.exceptions.ArtifactError: no such file cannot be loaded: No such file or directory.
    """
    if isinstance(trusted, str) or not all(isinstance(name, str) for name in trusted):
        raise ArtifactError(f"`trusted` must be a list of names of types, got {trusted!r}.")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would block
            raise ArtifactError("it is not a file")
        with open(path, "rb") as file:
            manifest, members = _checked(file)
            model = _made(manifest, MemberReader(file, members, trusted))
    except (ArtifactError, OSError) as error:
        reason = error.message if isinstance(error, ArtifactError) else str(error.strerror)
        raise ArtifactError(f"{os.fspath(path)} cannot be loaded: " + reason + ".") from error
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        from emsco.certify import problem_with  # imported only if needed

        problem = problem_with(certificate, model)
        if problem:
            warn(f"{os.fspath(path)}: {problem}", CertificateWarning)
    return model


def _checked(file: BinaryIO) -> tuple[Data, list[Member]]:
    """Read the manifest, and check every byte of the file against its hash, in parts."""
    members, seal = open_zip(file, comment_size=_SEAL_SIZE)
    if not members or members[0].name != _MANIFEST or members[0].size > _json.MOST_BYTES:
        raise ArtifactError(
            f"it must begin with a {_MANIFEST} of at most {_json.MOST_BYTES:,} bytes"
        )
    written = read_member(file, members[0])
    if seal != _SEAL + _sha256([written]).encode("ascii"):
        raise ArtifactError(f"its {_MANIFEST} was changed")
    manifest = expect(_json.parse(written), dict)
    if expect(manifest.get("format"), int) != FORMAT:
        raise ArtifactError(
            f"it has format {manifest['format']}, and this version of emsco reads format {FORMAT} "
            "only; install the version that wrote it"
        )
    expect_keys(manifest, *_KEYS)
    expect_texts(list(expect(manifest["versions"], dict).values()))
    listed = expect(manifest["members"], dict)
    if list(listed) != [member.name for member in members[1:]]:
        raise ArtifactError("its members differ from those listed in its manifest")
    found = {}
    for member in members[1:]:
        if not _MEMBER.fullmatch(member.name):
            raise ArtifactError(f"it has the unknown member {member.name!r}")
        found[member.name] = _listed(member.size, read_parts(file, member))
    content = {name: manifest[name] for name in ("kind", "model", "members")}
    if listed != found or manifest["fingerprint"] != _sha256([_json.write(content)]):
        raise ArtifactError("one of its members, or its list of members, was changed")
    return manifest, members[1:]


def _made(manifest: Data, reader: MemberReader) -> Any:
    """Build the model; whatever a forged manifest causes is raised as an ArtifactError."""
    try:
        model = _KINDS[manifest["kind"]][2](manifest["model"], reader)
        certificate = _certificate_from(reader, manifest["certificate"])
        if certificate is not None:
            model.certificate_ = certificate
        reader.check_all_read()
    except (ArtifactError, ImportError):
        raise
    except Exception as error:
        raise ArtifactError(f"it does not describe a valid model: {error!r:.200}") from error
    return model


def _certificate_to(writer: MemberWriter, model: Any) -> Data | None:
    """Store the certificate of a model, if it has one; refuse one of another cascade."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return None
    from emsco.certify import Certificate  # as above

    if not isinstance(certificate, Certificate):
        raise ArtifactError(
            f"its `certificate_` must be a Certificate, got a {type(certificate).__name__}"
        )
    if isinstance(model, CascadeClassifier) and not certificate.holds_for(model):
        raise ArtifactError(
            "its `certificate_` is about another cascade, or about this one before it was fitted "
            "again; certify it again, or `del cascade.certificate_`"
        )
    data = certificate.to_data()
    candidates = records_to(writer, data.pop("candidates"), "the certificate")
    return {"certificate": to_plain(data, "the certificate"), "candidates": candidates}


def _certificate_from(reader: MemberReader, data: Any) -> Any:
    """Read the certificate back."""
    if data is None:
        return None
    from emsco.certify import Certificate  # as above

    expect_keys(data, "certificate", "candidates")
    fields = expect(from_plain(data["certificate"]), dict)
    return Certificate.from_data(fields | {"candidates": records_from(reader, data["candidates"])})


def _listed(size: int, parts: Iterable[bytes]) -> Data:
    """Return what a manifest lists for a member."""
    return {"size": size, "sha256": _sha256(parts)}


def _sha256(parts: Iterable[bytes]) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


def _versions() -> Data:
    from emsco import __version__  # not defined yet when this file is imported

    return {
        "emsco": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _front_to(front: ParetoFront, writer: MemberWriter) -> Data:
    return {
        "costs": costs_to(front.costs),
        **measured_to(front),
        "candidates": candidates_to(writer, front, front.costs),
    }


def _front_from(data: Data, reader: MemberReader) -> ParetoFront:
    expect_keys(data, "costs", "candidates", *MEASURED)
    costs = costs_from(data["costs"])
    return front_from(candidates_from(reader, data["candidates"], costs), costs, data)


# Each kind of model, and the functions that write and read it.
_KINDS: dict[str, tuple[type[Any], Callable[..., Data], Callable[..., Any]]] = {
    "cascade": (CascadeClassifier, cascade_to, cascade_from),
    "front": (ParetoFront, _front_to, _front_from),
    "search": (CascadeSearchCV, search_to, search_from),
}
