"""Reports in another language: what people read changes, and nothing else; the command line takes a language."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from rich.cells import cell_len

from tests.cli.running import assert_one_line, call
from tests.formats.samples import SOUND, TRAINING, report_of
from tests.reading import plain
from traceanalyzer.formats import language, render, terminal
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.sections.overview import PART_LABELS

RU, ZH = language.of("ru"), language.of("zh")
each_language = pytest.mark.parametrize("spoken", [ENGLISH, RU, ZH], ids=lambda spoken: spoken.code)


def test_the_language_changes_what_people_read_and_nothing_else() -> None:
    report = report_of(TRAINING)
    texts = {spoken.code: render(report, "markdown", None, spoken) for spoken in (ENGLISH, RU, ZH)}
    assert texts["en"] == render(report, "markdown")
    assert "\n### Время шага\n" in texts["ru"]
    assert "\n### 单个 step 耗时\n" in texts["zh"]
    assert len({render(report, "json", None, spoken) for spoken in (ENGLISH, RU, ZH)}) == 1


@each_language
def test_the_screen_keeps_its_width_and_its_numbers(spoken: Language) -> None:
    report = report_of(TRAINING)
    stream = io.StringIO()
    terminal.show(report, stream, top=5, plain=True, language=spoken)
    lines = stream.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 80
    parts = plain(report)["recording"]["typical"]["parts"]
    shown = spoken.quantity(parts["memcpy_ns"], "plain_ns")
    label = spoken.text(PART_LABELS["memcpy"])
    assert any(label in line and shown in line for line in lines)


@pytest.mark.parametrize("lang", ["en", "ru", "zh"])
def test_no_language_needs_babel(lang: str) -> None:
    code = (
        f"import sys; sys.argv[1:] = ['report', '-q', '--lang', '{lang}', '--format', 'markdown', sys.argv[1]]\n"
        "from traceanalyzer.cli import main\n"
        "try: main()\n"
        "finally: assert 'babel' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, TRAINING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("lang", "word"), [("ru", "Время шага"), ("zh-CN", "step 时间"), ("en", "Step time")])
def test_the_command_line_takes_a_language(lang: str, word: str) -> None:
    command = ("report", TRAINING, "-q", "--lang", lang)
    run = call(*command, "--format", "markdown")
    assert (run.code, run.err) == (0, "")
    assert word in run.out
    assert json.loads(call(*command, "--format", "json").out) == json.loads(render(report_of(TRAINING), "json"))


def test_a_wrong_language_is_one_line() -> None:
    line = assert_one_line(call("report", "no-such-file.json", "--lang", "tlh"))
    assert line == "traceanalyzer: --lang tlh: no such language; use one of en, ru, zh, auto\n"


@pytest.mark.parametrize(("spoken", "words"), [(RU, ("хост",)), (ZH, ("主机", "核函数"))])
def test_the_first_screens_say_cpu_and_kernel(spoken: Language, words: tuple[str, ...]) -> None:
    screens = [terminal.render(report_of(path), width=100, language=spoken) for path in SOUND]
    assert [word for word in words for screen in screens if word in screen.lower()] == []
