"""The folder of skills and instructions that a run sees, made once for all runs that want the same.

    <claim>/bundles/<company>/<key>/.claude/skills/<runtime name>/...     copies, never links
                                    agent-instructions.md
                                    instructions/...                      the files beside the instructions

The key is the SHA-256 of all content, so neither order nor times matter, and a bundle never changes. It is built beside
its place, written to disk and renamed: what stands there is whole, and who builds the same at the same time does no
harm. Every use touches it; `collect.py` removes what was not used for long.

A launcher that does not have the claim holds the same files in memory (`hold`), and they travel in Secrets of the run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol
from weakref import WeakValueDictionary

from kubekit.names import slug_with_hash
from paperclip_launcher.skills.instructions import FOLDER, Instructions
from paperclip_launcher.skills.sinks import Folder, HeldFile, Memory, Sink, new_folder
from paperclip_launcher.skills.walk import Budget, BundleFailed, Limits, Refused, Tree, opened

BUNDLES = "bundles"
INSTRUCTIONS = "agent-instructions.md"
UNFINISHED = ".new-"
"""Begins the name of a bundle that is being built."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNTIME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NO_CLAIM = "since the launcher does not have the agents' claim"
_VERSION = b"paperclip bundle 1\0"
_TRIES = 100


class SkillSource(Protocol):
    """One skill: options.Skill. `source` is its folder where the launcher runs."""

    @property
    def key(self) -> str: ...

    @property
    def runtime_name(self) -> str: ...

    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Bundle:
    """`relative_path` is the folder below the claim's root; that and `key` are "" where there is nothing to bundle.

    `skills` are the runtime names it holds, `notes` one sentence for each thing that was left out.
    """

    key: str = ""
    relative_path: str = ""
    skills: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class HeldBundle:
    """A bundle in memory, with the key that it would have on the claim; "" where there is nothing to bundle."""

    key: str = ""
    files: tuple[HeldFile, ...] = field(default=(), repr=False)
    skills: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


# Of many runs that begin at once, most want the same skills: their bytes are there once.
_ALIVE: WeakValueDictionary[tuple[str, tuple[str, ...]], HeldBundle] = WeakValueDictionary()


def prepare(
    root: str,
    sources: Sequence[SkillSource],
    instructions: Instructions | None,
    *,
    company: str,
    roots: Sequence[str],
    now: float,
    limits: Limits | None = None,
) -> Bundle:
    """Finds or makes the bundle in `root`, the claim's mount; `now` is the time of its use. BundleFailed.

    Skills come from folders below `roots` only. A skill that cannot be read is left out, and so is a link, FIFO or
    device in one: each with a note. What breaks the limits fails the run, since nobody would notice half a skill.
    """
    chosen, refused = _choose(sources)
    work = _Work(chosen, instructions, roots, limits or Limits())
    try:
        with ExitStack() as stack:
            top = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
            stack.callback(os.close, top)
            place = stack.enter_context(new_folder(top, BUNDLES))
            place = stack.enter_context(new_folder(place, slug_with_hash(company)))
            key = work.run(None)
            if key and not use(place, key, now):
                key = _build(place, key, work, now)
    except OSError as error:
        raise BundleFailed(f"the bundle cannot be written below {root}: {error.strerror}") from error
    return _bundle(company, key, work, refused)


def foresee(
    sources: Sequence[SkillSource], instructions: Instructions | None, *, company: str, roots: Sequence[str]
) -> Bundle:
    """What `prepare` would make; nothing is written. BundleFailed."""
    chosen, refused = _choose(sources)
    work = _Work(chosen, instructions, roots, Limits())
    return _bundle(company, _read(work, None), work, refused)


def hold(
    sources: Sequence[SkillSource], instructions: Instructions | None, *, roots: Sequence[str], limits: Limits
) -> HeldBundle:
    """The same bundle in memory. BundleFailed for instructions that break the limits.

    A skill that breaks them is left out as a whole, with a note: on the claim there would be room for it.
    """
    chosen, refused = _choose(sources)
    work, memory = _Work(chosen, instructions, roots, limits, forgiving=True), Memory()
    key = _read(work, memory)
    files = tuple(sorted(memory.files, key=lambda one: one.path))
    notes = (*refused, *work.notes)
    return _ALIVE.setdefault((key, notes), HeldBundle(key, files, tuple(work.done), notes))


def _read(work: _Work, into: Memory | None) -> str:
    try:
        return work.run(into)
    except OSError as error:
        raise BundleFailed(f"the skills cannot be read: {error.strerror}") from error


def _bundle(company: str, key: str, work: _Work, refused: Sequence[str]) -> Bundle:
    notes = (*refused, *work.notes)
    path = f"{BUNDLES}/{slug_with_hash(company)}/{key}"
    return Bundle(key, path, tuple(work.done), notes) if key else Bundle(notes=notes)


def use(place: int, key: str, now: float) -> bool:
    """Marks the bundle `key` in the open folder `place` as used; False where it is not there."""
    try:
        descriptor = os.open(key, _FOLDER, dir_fd=place)
    except FileNotFoundError:
        return False
    try:
        os.utime(descriptor, (now, now))
        # It may have been on its way out, under another name, when it was touched.
        there = os.stat(key, dir_fd=place, follow_symlinks=False)
        return os.path.samestat(there, os.fstat(descriptor))
    except FileNotFoundError:
        return False
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Work:
    """A pass over the sources: to know the key, or to copy. `forgiving` leaves out a skill that breaks the limits."""

    sources: Sequence[SkillSource]
    instructions: Instructions | None
    roots: Sequence[str]
    limits: Limits
    forgiving: bool = False
    notes: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def run(self, into: Sink | None) -> str:
        """The key; "" where there is nothing. Copies into `into` if there is one."""
        self.notes.clear()
        self.done.clear()
        total = hashlib.sha256(_VERSION)
        scouted, read = Budget(self.limits), Budget(self.limits)
        if self.instructions is not None:
            self._instruct(self.instructions, total.update, into)
            for budget in (scouted, read) if self.forgiving else ():
                self._count(self.instructions, budget)
        with ExitStack() as stack:
            skills = None
            if into is not None:
                skills = stack.enter_context(stack.enter_context(into.folder(".claude")).folder("skills"))
            for source in self.sources:
                before = replace(scouted), replace(read)
                try:
                    digest = self._skill(source, scouted, read, skills)
                except Refused as reason:
                    self.notes.append(f"skill {source.runtime_name} is left out: its folder {reason}")
                except BundleFailed as error:
                    if not self.forgiving:
                        raise BundleFailed(f"skill {source.runtime_name}: {error}") from error
                    scouted, read = before
                    self.notes.append(f"skill {source.runtime_name} is left out, {_NO_CLAIM}: {error}")
                else:
                    self.done.append(source.runtime_name)
                    total.update(b"skill\0" + source.runtime_name.encode() + b"\0" + digest)
        return total.hexdigest() if self.done or self.instructions is not None else ""

    def _skill(self, source: SkillSource, scouted: Budget, read: Budget, skills: Sink | None) -> bytes:
        scouted.place = read.place = f".claude/skills/{source.runtime_name}/"
        with opened(source.source, self.roots, folder=True) as (descriptor, real):
            tree = Tree(descriptor, real)
            tree.scout(scouted)
            if skills is None:
                digest = tree.read(read)
            else:
                with skills.folder(source.runtime_name) as into:
                    digest = tree.read(read, into)
        self.notes.extend(f"skill {source.runtime_name}: {note}" for note in tree.notes)
        return digest

    def _instruct(self, instructions: Instructions, update: Callable[[bytes], None], into: Sink | None) -> None:
        text = instructions.text.encode("utf-8", "replace")
        update(b"instructions\0" + hashlib.sha256(text).digest())
        for name, content in sorted(instructions.files):
            update(b"beside\0" + name.encode() + b"\0" + hashlib.sha256(content).digest())
        if into is None:
            return
        with into.file(INSTRUCTIONS, runs=False) as write:
            write(text)
        with into.folder(FOLDER) as folder:
            for name, content in instructions.files:
                with folder.file(name, runs=False) as write:
                    write(content)

    def _count(self, instructions: Instructions, budget: Budget) -> None:
        budget.count_file(INSTRUCTIONS, len(instructions.text.encode("utf-8", "replace")))
        for name, content in instructions.files:
            budget.count_file(f"{FOLDER}/{name}", len(content))


def _build(place: int, key: str, work: _Work, now: float) -> str:
    """Copies, and puts the copy in its place under the key of what was copied: a source may change meanwhile."""
    name = _unfinished(place, key)
    try:
        with new_folder(place, name) as into:
            key = work.run(Folder(into))
        if not key:
            return ""
        os.utime(name, (now, now), dir_fd=place, follow_symlinks=False)
        try:
            os.rename(name, key, src_dir_fd=place, dst_dir_fd=place)
        except OSError:
            # Another builder was faster: then its bundle is ours too.
            if not use(place, key, now):
                raise
        else:
            # From here on the name is free for others.
            name = ""
            os.fsync(place)
        return key
    finally:
        if name:
            shutil.rmtree(name, ignore_errors=True, dir_fd=place)


def _unfinished(place: int, key: str) -> str:
    """Makes a folder that nobody else has, and says its name."""
    for number in range(_TRIES):
        name = f"{UNFINISHED}{key[:16]}-{number}"
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=place)
            return name
    raise BundleFailed(f"{_TRIES} unfinished bundles stand in the way; remove {UNFINISHED}* from the claim")


def _choose(sources: Sequence[SkillSource]) -> tuple[list[SkillSource], list[str]]:
    """The skills in the order of their names, without those whose name cannot be a folder's or is taken; and notes."""
    chosen: dict[str, SkillSource] = {}
    notes = []
    for source in sorted(sources, key=lambda one: (one.runtime_name, one.key)):
        shown = ascii(source.runtime_name)[1:-1]
        if not _RUNTIME_NAME.fullmatch(source.runtime_name):
            notes.append(f"skill {shown} is left out: its name must be letters, digits, dots, dashes and underscores")
        elif source.runtime_name.casefold() in chosen:
            notes.append(f"skill {shown} of {ascii(source.key)[1:-1]} is left out: another one has its name")
        else:
            chosen[source.runtime_name.casefold()] = source
    return list(chosen.values()), notes
