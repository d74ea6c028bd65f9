"""How findings are ranked, and how rules that cannot judge are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.reading import read_built
from tests.rules.idle.test_gpu_underutilized import working
from tests.rules.judging import facts_of, report
from tests.rules.loader.test_dataloader_bound import fires, fires_in_a_table, training
from traceanalyzer.config import Config
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine import runner
from traceanalyzer.rules.engine.change import DeviceWork
from traceanalyzer.rules.engine.rule import Draft, Rule
from traceanalyzer.rules.engine.selection import Chosen, builtin
from traceanalyzer.structure.events import EventSet

ROOT = Path(__file__).parents[2]
FILES = sorted(path for path in (ROOT / "fixtures").rglob("*") if path.is_file())

ONE_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_certain_findings_come_first_and_of_these_what_saves_most_by_itself() -> None:
    """What saves nothing yet and what only informs comes last, whatever it may be worth later."""
    found = report(training(4000, 6000, name=ONE_PROCESS)).findings
    keys = []
    for finding in found:
        is_last = finding.latent or finding.severity == "info"
        is_question = finding.stage == "preview" or bool(finding.saving and finding.saving.decided_by)
        likely = (finding.saving.point_ns_per_step or 0.0) if finding.saving else 0.0
        keys.append((is_last, is_question and not is_last, 0.0 if is_last or is_question else -likely))
    assert len(keys) > 1
    assert keys == sorted(keys)


def test_what_tests_share_of_a_trace_makes_the_report_of_the_program() -> None:
    """Also of one rule, and when the same trace is asked again."""
    for rule in (None, "dataloader-bound", None):
        config = Config(select=(rule,) if rule else ())
        assert report(fires(), rule) == analyze(read_built(fires()), config=config)


def test_fixes_point_to_their_findings() -> None:
    whole = report(fires())
    fixes = [fix for headline in whole.headlines if headline.combined for fix in headline.combined.fixes]
    assert fixes
    assert [whole.findings[fix.finding].rule for fix in fixes] == [fix.rule for fix in fixes]


def test_every_rule_finds_passes_or_says_why_it_cannot_judge() -> None:
    for situation in (fires(), fires_in_a_table()):
        skipped = [entry for entry in report(situation).skipped if entry.id in {rule.id for rule in builtin()}]
        assert all(entry.reason.text for entry in skipped)
        assert len({entry.id for entry in skipped}) == len(skipped)


TEXT = Text("judge-test", "text")


def _halving(ceiling: str, confidence: str) -> str:
    """The severity of what saves 5 to 95 % of a step in which a GPU computes, by a rule with a ceiling."""
    (facts,) = facts_of(working(400, 20))
    claims = {EventSet.kernel("ampere_sgemm_128x64_nn"): 0.95 * facts.step_ns}
    change = DeviceWork((0.05 * facts.step_ns, 0.95 * facts.step_ns), TEXT(), claims=claims)
    evidence = Evidence(TEXT(), 1.0, 0.5, "share", ())
    draft = Draft((evidence,), change, ceiling=ceiling, confidence=confidence)
    rule = Rule("halving", TEXT, TEXT, TEXT, TEXT, "low", "A", (), "0.2", trace=lambda *_: [draft])
    (finding,) = runner.judge([facts], [Chosen(rule, {})]).findings
    return finding.severity


@pytest.mark.parametrize(
    ("ceiling", "confidence", "severity"), [("medium", "A", "high"), ("medium", "C", "medium"), ("info", "A", "info")]
)
def test_what_most_likely_halves_a_step_is_severe(ceiling: str, confidence: str, severity: str) -> None:
    assert _halving(ceiling, confidence) == severity


def failed(path: Path) -> list[str]:
    try:
        found = corpus_files.report_of(path)
    except TraceAnalyzerError:  # what is no trace is tested elsewhere
        return []
    return [entry.reason.text for entry in found.skipped if entry.reason.id == "rule-failed"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_rule_breaks_on_a_fixture(path: Path) -> None:
    assert failed(path) == []


@pytest.mark.corpus
def test_no_rule_breaks_on_the_corpus(corpus: Path) -> None:
    files = [*(corpus / "corpus").iterdir(), *(corpus / "documents").iterdir()]
    assert [reason for path in files for reason in failed(path)] == []


def test_work_of_the_gpu_is_noted_beside_what_takes_half_of_a_step(corpus: Path) -> None:
    """0.8 % of a recording that is mostly start-up are 5 % of the rest; an allocator that is off hides as much."""
    folder = corpus / "field" / "second"
    for name, rule in (
        ("particle_transformer_a100_bs256", "dtype-cast-churn"),
        ("resnet18_no_caching_mi300", "conv-layout-transposes"),
    ):
        measured = corpus_files.report_of(folder / f"{name}.json.gz")
        (finding,) = [each for each in measured.findings if each.rule == rule]
        assert finding.saving is not None
        assert finding.saving.wall_share[1] < 0.02
        assert finding.severity == "low"
