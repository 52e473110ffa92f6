# Copyright (c) 2026 gpufleet.cuda contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that runs side by side, the largest piece first, and stops as a whole at the first error."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import typing as t


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


class Pool:
    """Threads for work that leaves the interpreter's lock alone: unpacking, hashing, copying."""

    def __init__(self, workers: int) -> None:
        self._change = threading.Condition()
        self._heap: list[tuple[int, int, t.Callable[[], None]]] = []
        self._count = itertools.count()
        self._busy = 0
        self._closed = False
        self.error: BaseException | None = None
        self._threads = [threading.Thread(target=self._work, daemon=True) for _number in range(workers)]
        for thread in self._threads:
            thread.start()

    def add(self, size: int, work: t.Callable[[], None]) -> None:
        """Queue a piece of work; larger ones are taken first."""
        with self._change:
            heapq.heappush(self._heap, (-size, next(self._count), work))
            self._change.notify()

    def is_stopped(self) -> bool:
        """Whether everybody should come to an end."""
        return self.error is not None

    def fail(self, error: BaseException) -> None:
        """Remember the first error; nothing new is begun after it."""
        with self._change:
            if self.error is None:
                self.error = error
            self._heap.clear()
            self._change.notify_all()

    def finish(self) -> None:
        """Wait for all that was queued, end the threads, and raise the first error."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        while True:
            with self._change:
                while not self._heap and not self._closed:
                    self._change.wait()
                if not self._heap:
                    return
                work = heapq.heappop(self._heap)[2]
            try:
                work()
            except BaseException as exc:
                self.fail(exc)


class Countdown:
    """Tells when the last of several pieces of work is done, and whether all went well."""

    def __init__(self, count: int, last: t.Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._left = count
        self._last = last
        self._event = threading.Event()
        self.right = True
        if count == 0:
            self._end()

    def done(self, *, right: bool = True) -> None:
        """One piece less."""
        with self._lock:
            self._left -= 1
            self.right = self.right and right
            left = self._left
        if left == 0:
            self._end()

    def wait(self, is_stopped: t.Callable[[], bool]) -> bool:
        """Whether all pieces were right; False as soon as everything stops."""
        while not self._event.wait(0.05):
            if is_stopped():
                return False
        return self.right

    def _end(self) -> None:
        self._last()
        self._event.set()
