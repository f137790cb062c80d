"""versitygw: S3 gateways over one folder of the local disk, in processes of their own."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import boto3

from process import Program
from s3 import BUCKET, Bucket

ROOT = ("root", "root-secret")


class Gateways:
    """Gateways on one folder. A context manager.

    The program is that of ``LAKESTEP_VERSITYGW``, else the one on the path; tests/README.md tells
    how it is installed. Where there is none, tests fail.
    """

    def __init__(self, folder: Path, number: int, *options: str) -> None:
        program = os.environ.get("LAKESTEP_VERSITYGW") or shutil.which("versitygw")
        assert program, "versitygw is not installed: see tests/README.md"
        self._program = program
        self._folder = folder
        self._options = options
        self._running = []
        self._number = number
        for name in ("data", "iam"):
            (folder / name).mkdir(parents=True)

    def __enter__(self):
        self.urls = [self._start(number) for number in range(self._number)]
        self._owner().create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_):
        for gateway in self._running:
            gateway.kill()

    def _start(self, number):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        gateway = Program(
            *(self._program, "--port", f"127.0.0.1:{port}", "--quiet"),
            *("--iam-dir", str(self._folder / "iam")),
            *("--access-log", str(self._access_log(number))),
            *("posix", *self._options, str(self._folder / "data")),
            log=self._folder / f"gateway{number}.log",
            pipes=False,
            environment={"ROOT_ACCESS_KEY": ROOT[0], "ROOT_SECRET_KEY": ROOT[1]},
        )
        self._running.append(gateway)
        while True:
            assert gateway.is_alive, gateway.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return f"http://127.0.0.1:{port}"
            except ConnectionRefusedError:
                pass

    def _access_log(self, number):
        return self._folder / f"requests{number}.log"

    def requests(self, number):
        """How many requests one of the gateways has answered."""
        with self._access_log(number).open("rb") as lines:
            return sum(1 for _ in lines)

    def bucket(self, number, key=ROOT):
        """The bucket behind one of the gateways, for the owner of a key."""
        return Bucket(self.urls[number], *key)

    # Users and what they may do.

    def user(self, name):
        """Make a user; return the key."""
        key = (name, f"{name}-secret")
        access = ("--access", ROOT[0], "--secret", ROOT[1], "--endpoint-url", self.urls[0])
        made = ("--access", key[0], "--secret", key[1], "--role", "user")
        subprocess.run([self._program, "admin", *access, "create-user", *made], check=True)
        return key

    def permit(self, *statements):
        """Set the policy of the bucket: `(user, actions, prefixes)` each."""
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": [user]},
                    "Action": [f"s3:{action}" for action in actions],
                    "Resource": [
                        f"arn:aws:s3:::{BUCKET}" + ("" if prefix is None else f"/{prefix}")
                        for prefix in prefixes
                    ],
                }
                for user, actions, prefixes in statements
            ],
        }
        self._owner().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))

    def _owner(self):
        return boto3.client(
            "s3",
            endpoint_url=self.urls[0],
            region_name="us-east-1",
            aws_access_key_id=ROOT[0],
            aws_secret_access_key=ROOT[1],
        )
