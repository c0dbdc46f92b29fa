"""Owns the command line `killpoint`: the front door for people and for CI.

Exit status: 0 accepted; 1 a violation; 2 used wrongly, with one line that says how; 3 incomplete; 4 a fault of the harness.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from faults.errors import HarnessFault
from scenarios import catalogues, doctor, explorer, mutants, progress, replaying, sweep
from scenarios.matrix import Wanted
from scenarios.targets import target as target_named

COMMANDS = ("run", "replay", "explore", "sweep", "show", "doctor", "mutants", "report", "diff")
ACCEPTED, USAGE, HARNESS, INTERRUPTED = 0, 2, 4, 130

app = typer.Typer(
    name="killpoint",
    help="Kills real workers of an agent runtime at named breakpoints and judges from what the outside world saw.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

TargetName = Annotated[str, typer.Option(help="what is judged: a name, or package.module:NAME")]


@app.callback()
def front(context: typer.Context) -> None:
    """Kills real workers of an agent runtime at named breakpoints and judges from what the outside world saw."""
    if context.invoked_subcommand is None:
        raise ValueError(f"no command given; there are: {', '.join(COMMANDS)}; see killpoint --help")


@app.command(short_help="Play the acceptance matrix, or a part of it.")
def run(
    target: TargetName = "reference",
    policy: Annotated[str, typer.Option(help="continue or settle")] = "continue",
    scenario: Annotated[str, typer.Option(help="shell pattern over scenarios")] = "*",
    point: Annotated[str, typer.Option(help="shell pattern over breakpoints")] = "*",
    fault: Annotated[str, typer.Option(help="shell pattern over faults; `none` for fault-free only")] = "*",
    case: Annotated[str, typer.Option(help="one case of the track record, such as C05, instead of the matrix")] = "",
    mutant: Annotated[str, typer.Option(help="play it on the reference with this seeded defect")] = "",
    jobs: Annotated[int, typer.Option("-n", "--jobs", min=0, max=64, help="processes; 0: one more than cores")] = 0,
    folder: Annotated[Path | None, typer.Option("--out", help="folder of the report [default: acceptance]")] = None,
    baseline: Annotated[Path | None, typer.Option(help="an earlier report.json to compare with")] = None,
    cold: Annotated[bool, typer.Option("--cold", help="start every process cold, without the fork server")] = False,
) -> int:
    """Play the acceptance matrix, or a part of it, and write the report."""
    wanted = Wanted(scenario, point, fault, policy, cold, case.upper(), mutant)
    folder = folder or Path(f"acceptance-{wanted.case}" if case else "acceptance")
    return progress.run(target_named(target), target, wanted, folder.resolve(), jobs, baseline, out)


@app.command(short_help="Play one stored case again: does the same violation come?")
def replay(
    file: Annotated[Path, typer.Argument(help="a case file or a repro.json")],
    times: Annotated[int, typer.Option(min=1, max=100_000, help="how many times to play it")] = 1,
    target: Annotated[str | None, typer.Option(help="play it on another target than the one it names")] = None,
    mutant: Annotated[str | None, typer.Option(help="play it on the reference with this seeded defect")] = None,
    cold: Annotated[bool, typer.Option("--cold", help="start every process cold")] = False,
    script: Annotated[Path | None, typer.Option(help="write a Python file that plays it by itself, if it fails")] = None,
) -> int:
    """Play one stored case again, and say whether the same violation came, another one, or none."""
    return replaying.replay(file, times, target, mutant, cold, out, script)


@app.command(short_help="Play schedules that nobody wrote down.")
def explore(
    target: TargetName = "reference",
    examples: Annotated[int, typer.Option(min=1, max=1_000_000, help="how many schedules")] = 200,
    seconds: Annotated[float | None, typer.Option(min=1, help="begin no more schedules after so many seconds")] = None,
    seed: Annotated[int, typer.Option(min=0, help="the same seed gives the same schedules")] = 0,
    mutant: Annotated[str | None, typer.Option(help="put this seeded defect into the reference")] = None,
    first: Annotated[
        bool, typer.Option("--first", help="end with the first failure that comes each time, made small")
    ] = False,
    database: Annotated[Path, typer.Option(help="where failures are kept, to be tried first next time")] = Path(
        ".killpoint"
    ),
    jobs: Annotated[
        int, typer.Option("-n", "--jobs", min=0, max=64, help="side by side; 0 takes one more than there are cores")
    ] = 0,
    folder: Annotated[Path, typer.Option("--out", help="folder of what is found")] = Path("explored"),
) -> int:
    """Play schedules that nobody wrote down on real processes; make small what fails, and say what was reached."""
    if mutant is not None:
        mutants.only(mutant, target)
    wish = explorer.Wish(examples, seconds, seed, mutant, database, first)
    return explorer.explore(target_named(target), wish, folder.resolve(), jobs, out)


@app.command("sweep", short_help="Kill at every hit of every point of a scenario.")
def sweep_command(
    scenario: Annotated[str, typer.Option(help="a scenario, or a shell pattern over scenarios")],
    target: TargetName = "reference",
    pairs: Annotated[bool, typer.Option("--pairs/--no-pairs", help="then at every pair with a point of recovery")] = True,
    jobs: Annotated[
        int, typer.Option("-n", "--jobs", min=0, max=64, help="side by side; 0 takes one more than there are cores")
    ] = 0,
    folder: Annotated[Path, typer.Option("--out", help="folder of the report")] = Path("swept"),
) -> int:
    """Kill at every hit of every point of a scenario until nothing is left to kill, then at every pair of deaths."""
    return sweep.sweep(target, scenario, pairs, folder.resolve(), jobs, out)


@app.command(short_help="Show a catalogue, such as points or faults.")
def show(
    what: Annotated[str, typer.Argument(help=" | ".join(catalogues.NAMES))],
    as_json: Annotated[bool, typer.Option("--json", help="as data")] = False,
) -> int:
    """Show a catalogue: points, faults, scenarios, clauses, checks, targets, mutants, cases."""
    rows = catalogues.rows(what)
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        catalogues.print_rows(what, rows, out)
    return ACCEPTED


@app.command("doctor", short_help="Say what can be judged for a target on this machine.")
def doctor_command(target: TargetName = "reference") -> int:
    """Say what can be judged for this target on this machine, what cannot, and why."""
    return doctor.examine(target_named(target), out)


@app.command("mutants", short_help="Play the seeded defects of the reference.")
def mutants_command(
    only: Annotated[str, typer.Option(help="shell pattern over mutants")] = "*",
    jobs: Annotated[
        int, typer.Option("-n", "--jobs", min=0, max=64, help="processes; 0 takes one more than there are cores")
    ] = 0,
) -> int:
    """Play the seeded defects of the reference: each must be caught by the check that was named for it beforehand."""
    return mutants.play(only, jobs, out)


@app.command(short_help="Judge the stored histories of a run again.")
def report(
    folder: Annotated[Path, typer.Argument(help="folder of an earlier run")],
    target: Annotated[str | None, typer.Option(help="the run's target, if it is not of the list")] = None,
) -> int:
    """Judge the stored histories of a run again and write its report; say so if one was altered."""
    return replaying.judge_again(folder, target, out)


@app.command(short_help="Compare two runs: cells, clauses, speed.")
def diff(
    before: Annotated[Path, typer.Argument(help="a report.json, or a folder with one")],
    after: Annotated[Path, typer.Argument(help="a report.json, or a folder with one")],
) -> int:
    """Compare two runs: cells and clauses whose state changed, and speed."""
    return progress.compare(before, after, out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status is the result. A user's mistake is told in one line, without a traceback."""
    try:
        result: Any = app(arguments, prog_name="killpoint", standalone_mode=False)
    except HarnessFault as error:
        return _refuse(f"fault of the harness: {error}", HARNESS)
    except (ValueError, OSError) as error:
        return _refuse(_one_line(error))
    except (KeyboardInterrupt, typer.Abort):
        return _refuse("interrupted; what was judged so far is in the report", INTERRUPTED)
    except Exception as error:
        # The parser's own errors have no public class; they all know how to say themselves.
        say = getattr(error, "format_message", None)
        if say is None:
            traceback.print_exc()
            return _refuse(f"fault of the harness: {type(error).__name__}: {_one_line(error)}", HARNESS)
        return _refuse(_one_line(say().rstrip(".")) + "; see killpoint --help")
    return result if isinstance(result, int) else ACCEPTED


def _one_line(error: Exception | str) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _refuse(message: str, status: int = USAGE) -> int:
    err.print(f"killpoint: {message}", markup=False)
    return status


def entry() -> None:
    """The console script."""
    sys.exit(main())
