"""The command line of start.py: a mistake is named."""

from __future__ import annotations

import pytest

from launcher.command import parse


@pytest.mark.parametrize("wrong", [["--prot", "1"], ["--prot=1"], ["lab", "--prot", "lab"]])
def test_an_unknown_option_is_named(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(wrong)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "there is no option --prot; there are: --no-browser, --port" in said


def test_the_options_there_are(capsys):
    options = parse(["lab", "--port=8900", "--no-browser"])
    assert (options.port, options.browser) == (8900, False)
    assert parse(["--port", "8900"]).port == 8900
    with pytest.raises(SystemExit) as ended:
        parse(["-h"])
    assert ended.value.code == 0
    with pytest.raises(SystemExit):
        parse(["--port", "-1"])
    assert "--port" in capsys.readouterr().err
