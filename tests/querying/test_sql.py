"""What a query may do and for how long, and how it is answered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.cli.running import FIXTURES, call
from tests.reading import read_built
from traceanalyzer.errors import MissingDependencyError, UsageError
from traceanalyzer.querying import QueryLimits

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

FILE = FIXTURES / "synthetic" / "gpu_training.json.gz"
TRACE = ta.load(FILE)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("", "one SELECT; this has 0 statements"),
        ("-- nothing", "one SELECT; this has 0 statements"),
        ("select 1; select 2", "this has 2 statements"),
        ("select 1) union all (select 2", "syntax error"),
        ("select nope from host", 'column "nope" not found'),
        ("select * from kernel", "there is no table kernel"),
        ("select * from secret", "there is no table secret"),
        ("select * from '/etc/passwd'", "there is no table"),
        ("select * from read_csv('/etc/passwd')", "neither files nor addresses"),
        ("select * from glob('/*')", "neither files nor addresses"),
        ("select * from read_text('https://example.com/')", "neither files nor addresses"),
        ("copy host to '/tmp/x.csv'", "reads only; this is COPY"),
        ("attach '/tmp/x.db'", "reads only; this is ATTACH"),
        ("install httpfs", "reads only; this is LOAD"),
        ("set enable_external_access = true", "reads only; this is SET"),
        ("create table x as select 1", "reads only; this is CREATE"),
        ("drop view host", "reads only; this is DROP"),
        ("pragma database_list", "reads only; this is PRAGMA"),
        ("select * from range(1000000000)", "more than 100,000 rows"),
        ("select 1 / 'x'", "the query: Could not convert"),
    ],
)
def test_what_a_query_may_not(query: str, said: str) -> None:
    secret = {"a": [1]}
    with pytest.raises(UsageError) as caught:
        ta.sql(TRACE, query)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "_0" not in str(caught.value)
    assert secret


@pytest.mark.parametrize(
    "query",
    [
        "with recursive r as (select 1 i union all select i + 1 from r) select count(*) from r",
        "select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b",
    ],
)
def test_an_endless_query_ends(query: str) -> None:
    with pytest.raises(UsageError, match=r"longer than 0\.2 s"):
        ta.sql(TRACE, query, limits=QueryLimits(seconds=0.2))


def test_memory_is_limited() -> None:
    with pytest.raises(UsageError, match="more than 50 MB of memory"):
        ta.sql(TRACE, "select list(range) from range(100000000)", limits=QueryLimits(memory_mb=50))


def test_a_limit_holds_exactly() -> None:
    assert len(ta.sql(TRACE, "select * from range(5)", limits=QueryLimits(rows=5))) == 5
    with pytest.raises(UsageError, match="more than 4 rows"):
        ta.sql(TRACE, "select * from range(5)", limits=QueryLimits(rows=4))


def test_settings_are_locked() -> None:
    (row,) = ta.sql(
        TRACE,
        "select value from duckdb_settings() where name = 'enable_external_access'",
    ).rows
    assert row == ("false",)
    assert ta.sql(TRACE, "select current_setting('lock_configuration')").rows == ((True,),)


def test_the_order_stays() -> None:
    times = [row[0] for row in ta.sql(TRACE, "select start_ns from device order by dur_ns desc, row").rows]
    device = TRACE.device
    order = sorted(range(len(device)), key=lambda row: (-int(device.dur_ns[row]), row))
    assert times == device.start_ns[order].tolist()


def test_unknown_is_null() -> None:
    (row,) = ta.sql(TRACE, "select count(bytes), count(grid), count(*) from device where category = 'kernel'").rows
    kernels = int((TRACE.device.category == 4).sum())
    assert row == (0, kernels, kernels)
    assert ta.sql(TRACE, "select count(*) from host where sequence = -1").rows == ((0,),)


def test_only_named_tables_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.querying.recordings.analyze", lambda *_, **__: pytest.fail("the whole report"))
    assert ta.sql(TRACE, "select count(*) from gaps").rows[0][0] > 0
    assert ("gaps",) in ta.sql(TRACE, "show tables").rows


def test_calls_are_answered_without_what_autograd_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find whose the launches are costs more than the tree."""
    monkeypatch.setattr("traceanalyzer.structure.module_calls.owners", lambda *_: pytest.fail("owners of launches"))
    assert ta.sql(TRACE, "select count(*) from calls where module is not null").rows[0][0] > 0
    assert ta.sql(TRACE, "select count(*) from modules").rows[0][0] > 0


NESTED = [
    ("A_0", 0, 100), ("B_0", 0, 60), ("C_0", 10, 40), ("B_0", 20, 20), ("C_0", 30, 10), ("C_1", 70, 30),
    ("A_0", 200, 50), ("B_0", 210, 10), ("B_0", 230, 10), ("C_1", 300, 10), ("D_0", 300, 10),
]  # fmt: skip
"""Names, starts and durations of calls of modules; some begin or end together with the one around them."""


def test_paths_of_modules_are_the_names_around_them() -> None:
    trace = TraceBuilder()
    for name, start, duration in NESTED:
        trace.module(name, start, duration)
    found = ta.sql(read_built(trace), "select path, depth, start_ns // 1000, dur_ns // 1000 from modules order by node")
    wanted = []
    for row, (name, start, duration) in enumerate(NESTED):
        around = [n for n, s, d in NESTED[:row] if s <= start and start + duration <= s + d]
        wanted.append(("/".join([*around, name]), len(around), start, duration))
    assert list(found.rows) == wanted
    inner = ta.sql(read_built(trace), "select module from calls order by node")
    assert [module for (module,) in inner.rows] == [path for path, *_ in wanted]


def test_columns_are_not_copied() -> None:
    longer = replace(TRACE, device=TRACE.device.take(TRACE.device.dur_ns > 0))
    before = ta.sql(longer, "select max(dur_ns) from device").rows[0][0]
    longer.device.dur_ns[0] = before + 1
    assert ta.sql(longer, "select max(dur_ns) from device").rows == ((before + 1,),)


def test_names_occur_in_any_case() -> None:
    assert ta.sql(TRACE, 'SELECT COUNT(*) FROM GAPS, "Steps"').rows[0][0] > 0


def test_no_trace_is_an_error() -> None:
    with pytest.raises(UsageError, match="answered from traces"):
        ta.sql([], "select 1")
    with pytest.raises(UsageError, match="answered from traces"):
        ta.sql(ta.analyze(TRACE), "select 1")  # type: ignore[arg-type]


def test_without_duckdb_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependencyError, match=r"torch-traceanalyzer\[sql\]"):
        ta.sql(TRACE, "select 1")
    done = call("query", "no/such/file.json", "select 1")
    assert done.code == 2
    assert "pip install 'torch-traceanalyzer[sql]'" in done.err


def test_neither_pandas_nor_pyarrow_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert len(ta.sql(TRACE, "select * from kernels limit 3")) == 3


def test_tables_are_listed_without_a_query() -> None:
    done = call("query", str(FILE))
    assert done.code == 0
    assert "kernels: Kernels of `device`" in done.out


def test_table_on_the_screen() -> None:
    done = call("query", str(FILE), "select 'a' as text, 1000000 as number, null as nothing")
    assert done.code == 0
    assert done.out == "text   number  nothing\n----  -------  -------\na     1000000\n(1 row)\n"


def test_control_characters_are_not_printed() -> None:
    done = call("query", str(FILE), "select chr(27) || '[31m' as x")
    assert "\x1b" not in done.out
    assert call("query", str(FILE), "select chr(27) as x", "--format", "json").out == '[\n{"x": "\\u001b"}\n]\n'


def test_json_and_csv() -> None:
    query = "select '=1+1' as text, 1.5 as number, null as nothing, 'nan'::double as odd, true as yes"
    assert (
        call("query", str(FILE), query, "--format", "csv").out == "text,number,nothing,odd,yes\n'=1+1,1.5,,nan,true\n"
    )
    out = call("query", str(FILE), query, "--format", "json").out
    assert out == '[\n{"text": "=1+1", "number": 1.5, "nothing": null, "odd": null, "yes": true}\n]\n'
    assert call("query", str(FILE), "select 1 where false", "--format", "json").out == "[]\n"


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "it's.parquet"
    done = call("query", str(FILE), "select name, dur_ns from kernels", "-o", str(file))
    assert done.code == 0
    (read,) = duckdb.connect().execute("select count(*), sum(dur_ns) from read_parquet(?)", [str(file)]).fetchall()
    assert read == ta.sql(TRACE, "select count(*), sum(dur_ns) from kernels").rows[0]
    assert "cannot be printed" in call("query", str(FILE), "select 1", "--format", "parquet").err
    with pytest.raises(UsageError):
        ta.sql(TRACE, f"select * from read_parquet('{tmp_path / 'x'}')")


def test_too_many_rows_leave_no_file(tmp_path: Path) -> None:
    for name in ("x.parquet", "x.csv"):
        done = call("query", str(FILE), "select * from range(10)", "--max-rows", "9", "-o", str(tmp_path / name))
        assert done.code == 2
        assert "more than 9 rows" in done.err
    assert not list(tmp_path.iterdir())


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("mine", "utf-8")
    assert call("query", str(FILE), "select 1", "-o", str(file)).code == 2
    assert file.read_text("utf-8") == "mine"
    assert call("query", str(FILE), "select 1 as a", "-o", str(file), "--force").code == 0
    assert file.read_text("utf-8") == "a\n1\n"


def test_ranks_of_a_folder(tmp_path: Path) -> None:
    from tests.builders.ranks import Meeting, run  # noqa: PLC0415

    for number, rank in enumerate(run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 2))])):
        rank.write(tmp_path / f"rank{number}.json.gz")
    done = call("query", str(tmp_path), "select rank, recorded_rank from ranks order by 1", "--format", "csv")
    assert done.out == "rank,recorded_rank\n0,0\n1,1\n2,2\n"


def test_what_is_no_trace() -> None:
    done = call("query", str(FIXTURES / "key_averages" / "article.md"), "select 1")
    assert done.code == 2
    assert "contains printed tables, but a query is made of a trace" in done.err
