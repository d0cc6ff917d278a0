"""What a certificate may put in the place of the choice: only what keeps what the choice kept."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from emsco import CascadeSearchCV, dump, load
from emsco.certify import Certificate, certify
from emsco.exceptions import CertificateError, SelectionWarning
from emsco.rows.ledger import forget_all
from emsco.search.default_rule import may_be_default
from emsco.search.lost_classes import loses

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


def table(n_rows, seed):
    """Make two cheap columns: what separates most rows says nothing of the rare class."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["common", "rare"], p=[0.85, 0.15], size=n_rows)
    sick = labels == "rare"
    X = pd.DataFrame({"cheap": 1.2 * sick + rng.normal(size=n_rows)})
    X["dear"] = 1.6 * sick + rng.normal(size=n_rows)
    return X, labels


@pytest.fixture(scope="module")
def found():
    forget_all()
    X, y = table(800, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return CascadeSearchCV(
            costs={"cheap": 1, "dear": 8}, luck=False, cv=3, max_stages=2, random_state=0
        ).fit(X, y)


def keeps(found, candidate):
    """Say whether a candidate meets the conditions of the default choice, as counted."""
    from emsco.core.selection import Figures

    own, whole = Figures([candidate.evaluation]), found.all_sources_.evaluation
    return bool(may_be_default(own, whole, 0.0, found.front_.repeats)[0])


def test_only_what_meets_the_conditions_of_the_default_choice_replaces_it(found):
    fresh, y = table(1500, 1)
    certificate = certify(found, fresh, y, accuracy=0.9, confidence=0.9)
    assert certificate.candidates
    for one in certificate.candidates:
        is_chosen = one.candidate == found.best_candidate_
        assert one.keeps == (is_chosen or keeps(found, one.candidate))
    again = Certificate.from_data(certificate.to_data())
    assert again == certificate
    lost = [c for c in certificate.candidates if not c.keeps]
    assert lost, "many candidates reach 90% by saying that every row is common"
    if certificate.suitable:
        assert certificate.select(min_coverage=0).keeps
    else:
        with pytest.raises(CertificateError, match="none keeps what the choice kept"):
            certificate.select()


def test_where_nothing_keeps_it_the_certificate_lists_what_could_be_certified(found):
    fresh, y = table(1500, 2)
    with pytest.raises(CertificateError, match=r"candidates could be certified, but .* none keeps"):
        certify(found, fresh, y, accuracy=0.97, confidence=0.9).select()


def test_after_a_choice_by_bounds_a_replacement_loses_no_class(found):
    own = found.choose(min_coverage=0.5, max_missed={"rare": 0.9}, caution=0)
    fresh, y = table(1500, 3)
    certificate = certify(own, fresh, y, accuracy=0.8, confidence=0.9)
    from emsco.core.selection import Figures

    chosen = Figures([own.best_candidate_.evaluation])
    held = [c for c in ("common", "rare") if not loses(chosen, c)[0]]
    for one in certificate.suitable:
        figures = Figures([one.candidate.evaluation])
        assert not any(loses(figures, c)[0] for c in held)
    own.choose()


def test_a_file_says_that_a_choice_was_made_by_default(found, tmp_path):
    found.choose()
    dump(found, tmp_path / "search.emsco")
    assert load(tmp_path / "search.emsco").choice_.is_default
    found.choose(min_coverage=0.5)
    dump(found, tmp_path / "other.emsco")
    assert not load(tmp_path / "other.emsco").choice_.is_default
    found.choose()
