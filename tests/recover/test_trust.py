from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.clusterd.client import credentials

pytestmark = pytest.mark.oldest


def test_certificate_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cert_path is .*none.pem"):
        credentials(str(tmp_path / "none.pem"))
