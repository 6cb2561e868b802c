"""`taskd-net certs`: what it writes, and that two commands are all it takes to try TLS."""

from __future__ import annotations

import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskd_net.cli.group import group
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.files import Tls
from tests.cli.processes import ROOT, Command, Daemon

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

Run = Callable[..., Result]


@pytest.fixture
def certs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`taskd-net certs`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(group, ["certs", *arguments])
        assert done.exit_code == code, done.output
        return done

    return run


def mode(path: str) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(Path(path).stat().st_mode)


def names(path: str) -> tuple[list[str], list[str], list[str]]:
    """URIs, names and IP addresses in a certificate."""
    certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return (
        found.get_values_for_type(x509.UniformResourceIdentifier),
        found.get_values_for_type(x509.DNSName),
        [str(address) for address in found.get_values_for_type(x509.IPAddress)],
    )


def purposes(path: str) -> set[x509.ObjectIdentifier]:
    """The purposes in a certificate."""
    certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
    return set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_what_is_issued_can_be_used_as_it_is_printed(certs: Run, tmp_path: Path) -> None:
    certs("init")
    settings = tomllib.loads(certs("issue").stdout)
    assert read(Tls(**settings)).client is not None
    assert mode("certs/ca.key") == mode("certs/node.key") == 0o600
    assert settings["ca"] == str(tmp_path / "certs" / "ca.crt")
    assert names("certs/node.crt") == (["taskd://*/*/*/*"], ["localhost"], ["127.0.0.1", "::1"])
    before = Path("certs/node.crt").read_bytes()
    certs("issue")
    assert Path("certs/node.crt").read_bytes() != before


def test_a_certificate_for_one_node(certs: Run) -> None:
    certs("init", "--folder", "x/y")
    certs("issue", "Proxy/3", "--folder", "x/y", "--job", "llm-7", "--host", "node-3", "--host", "10.0.0.3")
    assert names("x/y/proxy-3.crt") == (["taskd://llm-7/Proxy/3"], ["node-3"], ["10.0.0.3"])
    certs("issue", "Worker/3/*", "--folder", "x/y")
    assert names("x/y/worker-3-any.crt")[0] == ["taskd://*/Worker/3/*"]
    assert sorted(path.name for path in Path("x/y").iterdir()) == [
        *("ca.crt", "ca.key", "proxy-3.crt", "proxy-3.key", "worker-3-any.crt", "worker-3-any.key"),
    ]


@pytest.mark.parametrize("name", ["Worker/3/24", "Worker/*/*", "Agent/3"])
def test_leaf_gets_a_certificate_for_clients_alone(certs: Run, name: str) -> None:
    """A child must not accept it from a parent: another end of a link, and no host names."""
    certs("init")
    said = certs("issue", name).stdout
    settings = tomllib.loads(said)
    assert settings.keys() == {"ca", "client_key", "client_crt"} and "for clients alone" in said
    assert read(Tls(**settings)).client is not None
    assert names(settings["client_crt"]) == ([f"taskd://*/{name}"], [], [])
    assert purposes(settings["client_crt"]) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    certs("issue", name, "--host", "node-3")
    assert names(settings["client_crt"])[1] == ["node-3"]
    assert purposes(settings["client_crt"]) == {ExtendedKeyUsageOID.CLIENT_AUTH}


@pytest.mark.parametrize("name", ["Mgr/0", "Proxy/3", "*/3/*"])
def test_possible_parent_gets_a_certificate_for_both_ends(certs: Run, name: str) -> None:
    certs("init")
    settings = tomllib.loads(certs("issue", name).stdout)
    both = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert purposes(settings["server_crt"]) == both and names(settings["server_crt"])[1] == ["localhost"]


def test_what_is_refused(certs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected one with ca.crt and ca.key" in certs("issue", code=2).output
    certs("init")
    assert "as others rely on those" in certs("init", code=2).output
    assert "the role 'Boss' is not one of" in certs("issue", "Boss/0", code=2).output
    assert "ends with its processRank" in certs("issue", "Worker/0", code=2).output
    Path("file").touch()
    assert "is a file" in certs("init", "--folder", "file", code=2).output
    assert "can be written" in certs("init", "--folder", "file/x", code=1).output
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert "pip install 'taskd-net[tls]'" in certs("issue", code=1).output


SHOWN = """
taskd-net certs init
taskd-net certs issue > taskd-net.toml
taskd-net mgr --config taskd-net.toml
taskd-net proxy --config taskd-net.toml
taskd-net listen --config taskd-net.toml --as Worker/0/3
taskd-net send --config taskd-net.toml Worker/0/3 "step 100"
"""


def test_the_document_shows_what_is_tried_here() -> None:
    document = ROOT / "docs" / "security.md"
    if not document.exists():
        pytest.skip("the documents are part of a checkout")
    lines = [line.partition("  #")[0].rstrip() for line in document.read_text().splitlines()]
    assert [line for line in lines if line.startswith("taskd-net ")] == SHOWN.strip().splitlines()


async def test_mutual_tls_takes_two_commands(tmp_path: Path) -> None:
    """Run the commands of `SHOWN` on free ports: a CA, a certificate, and every command with the file."""
    async with Command("certs", "init", cwd=tmp_path) as made:
        assert await made.exit_code() == 0
    async with Command("certs", "issue", cwd=tmp_path) as issued:
        config = tmp_path / "taskd-net.toml"
        config.write_text(await issued.rest())
        assert await issued.exit_code() == 0
    use = ("--config", config)
    async with (
        Daemon("mgr", *use, logs=tmp_path) as mgr,
        Daemon("proxy", *use, "--upstream", mgr.address, logs=tmp_path) as proxy,
        Command("listen", *use, "--upstream", proxy.address, "--as", "Worker/0/3", "--count", "1") as listen,
    ):
        await listen.said("ready")
        async with Command("send", *use, "--upstream", mgr.address, "Worker/0/3", "step 100") as send:
            assert (await send.line(), await send.exit_code()) == ("0 OK from Worker/0/3", 0)
        assert "step 100" in await listen.line()
        # Without the file nobody gets in, and is told why.
        async with Command("send", "--upstream", mgr.address, "--timeout", "1", "Mgr", "x") as stranger:
            assert await stranger.exit_code() == 3
            assert "speaks TLS, and this node is configured for plain text" in stranger.errors
        # New certificates while they run.
        async with Command("certs", "issue", cwd=tmp_path) as again:
            assert await again.exit_code() == 0
        await mgr.said("certificates_changed")
        await proxy.said("certificates_changed .*towards=parent")
        async with Command("send", *use, "--upstream", proxy.address, "Mgr", "still here") as send:
            assert (await send.line(), await send.exit_code()) == ("0 OK from Mgr/0", 0)
        assert "still here" in await mgr.line()


async def test_files_that_are_not_usable_end_a_command_with_one_line(tmp_path: Path) -> None:
    arguments = ("--ca", tmp_path / "ca", "--client-key", tmp_path / "key", "--client-crt", tmp_path / "crt")
    for command, code in ((("proxy",), 1), (("send", "Mgr", "x"), 2), (("listen", "--as", "Worker/0/0"), 2)):
        async with Command(*command, *arguments, cwd=tmp_path) as done:
            assert await done.exit_code() == code
            assert f"ca is '{tmp_path}/ca', which cannot be read: No such file or directory (from --ca)" in done.errors
