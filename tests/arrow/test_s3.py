"""Data sets in an S3-compatible store on loopback: moto's server, a process of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pytest
from commands import call
from test_batches import assert_same, rows, written_to

from emsco import CascadeClassifier, StageDesign, dump
from emsco.arrow import decide_batches, open_dataset
from emsco.exceptions import ArtifactError

SERVER = os.environ.get("EMSCO_MOTO_SERVER", "moto_server")


@pytest.fixture(scope="module")
def endpoint():
    """Start the server; it needs an environment of its own, because it pins older packages."""
    found = shutil.which(SERVER)
    assert found, "install moto[server] in an environment and set EMSCO_MOTO_SERVER to its command"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": "/tmp"}  # nobody's credentials
    server = subprocess.Popen(
        [found, "-H", "127.0.0.1", "-p", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, "the server ended"
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def store_at(endpoint):
    """Connect to the server."""
    return pa.fs.S3FileSystem(
        access_key="name",
        secret_key="word",
        endpoint_override=endpoint,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


@pytest.fixture(scope="module")
def bucket(endpoint, tmp_path_factory):
    """Write a data set into a bucket, partitioned by town; return how a URL names the store."""
    system = store_at(endpoint)
    system.create_dir("scores")
    frame, _ = rows(2000, 3)
    folder = str(tmp_path_factory.mktemp("rows"))
    written_to(folder, frame, partitioning=["town"], partitioning_flavor="hive")
    # One file after another: the server loses one of two uploads that end at the same moment.
    pa.fs.copy_files(folder, "scores/rows", destination_filesystem=system, use_threads=False)
    return f"?scheme=http&region=us-east-1&endpoint_override={endpoint}"


@pytest.fixture(scope="module")
def cascade():
    frame, y = rows(800, 0)
    design = StageDesign.from_stages([["cheap", "town"], ["gaps", "flag"], ["dear"]], list(frame))
    return CascadeClassifier(design=design, threshold=0.8).fit(frame, y)


def test_a_bucket_is_decided_as_its_table(bucket, cascade):
    """With partitions, through pyarrow's own file system."""
    dataset = open_dataset(f"s3://name:word@scores/rows{bucket}")
    expected = cascade.decide(dataset.to_table().to_pandas())
    assert len(expected) == 2000
    assert_same(list(decide_batches(cascade, dataset)), expected)


def test_the_command_reads_a_bucket(bucket, cascade, tmp_path):
    """The same decisions as from the library, and no secret in what is printed."""
    model, out = tmp_path / "model.emsco", tmp_path / "out.parquet"
    dump(cascade, model)
    url = f"s3://name:word@scores/rows{bucket}"
    told = call("decide", model, url, "--out", out)
    assert told.code == 0, told.err
    expected = cascade.decide(open_dataset(url).to_table().to_pandas())
    assert_same(pa.parquet.read_table(out).to_batches(), expected)
    refused = call("decide", model, f"s3://name:word@scores/nothing{bucket}", "--out", out)
    assert refused.code == 2
    assert "word" not in refused.err


def test_what_is_not_in_a_bucket_is_refused_by_name(bucket):
    with pytest.raises(ArtifactError, match="There is no file or folder s3://scores/nothing") as e:
        open_dataset(f"s3://name:word@scores/nothing{bucket}")
    assert "word" not in str(e.value)
