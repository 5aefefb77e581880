"""Several processes train one model: each computes a share of every batch, and they average.

This is data parallelism (Li et al. 2020, arXiv 2006.15704, describe PyTorch's own). torchrun starts
the processes and tells each its rank. All have the same weights and draw the same windows from the
same random numbers; of those, rank r of n reads the rows r, r + n, r + 2n … The mean of the
gradients of equal shares is the gradient of the whole batch, so all make the same step, and n
processes compute what one does but for the last bits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from course_lib.runtime import CourseError, choose_device

if TYPE_CHECKING:
    from course_lib.training.presets import TrainingConfig

Value = TypeVar("Value")
PATIENCE = timedelta(minutes=5)  # how long a process waits for the others before it gives up


class Team:
    """The processes of one training, seen from one of them. ALONE is the team of one.

    rank 0 leads: it measures, writes and speaks. stopping: whether one of them was asked to stop.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self.stopping = False
        self._asked = False

    @property
    def leads(self) -> bool:
        """Whether this process is the one that measures, writes and speaks."""
        return self.rank == 0

    def require_shares(self, config: TrainingConfig) -> None:
        """CourseError for a batch that the processes cannot share equally."""
        if config.batch_size % self.size:
            raise CourseError(
                f"a batch of {config.batch_size} windows cannot be shared equally by {self.size} "
                "processes; start a number of them that divides it"
            )

    def share(self, rows: Tensor) -> Tensor:
        """This process's rows of a batch."""
        return rows if self.size == 1 else rows[self.rank :: self.size]

    def own_random_numbers(self, seed: int, step: int) -> None:
        """Let dropout differ between the processes, and from step to step, in a known way.

        Its random numbers follow from seed, step and rank, so that a resumed run draws them again.
        """
        if self.size > 1:
            torch.manual_seed(hash((seed, step, self.rank)) % 2**63)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its mean over the processes."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        together = torch.cat([gradient.flatten() for gradient in gradients])  # one message, not 30
        torch.distributed.all_reduce(together)
        together /= self.size
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def same_weights(self, model: nn.Module) -> None:
        """Give every process the leader's weights."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                torch.distributed.broadcast(tensor, src=0)

    def conclude(self, loss: Tensor) -> float:
        """The mean of the processes' losses; `stopping` is the same for all of them afterwards."""
        if self.size == 1:
            return loss.item()
        told = torch.stack([loss.detach().float(), loss.new_tensor(float(self._asked))])
        torch.distributed.all_reduce(told)
        total, asked = told.tolist()
        self.stopping = asked > 0
        return total / self.size

    def from_leader(self, compute: Callable[[], Value]) -> Value:
        """What the leader computes, for all: what depends on clock or files has to agree."""
        if self.size == 1:
            return compute()
        box = [compute() if self.leads else None]
        torch.distributed.broadcast_object_list(box, src=0)
        return box[0]

    def wait(self) -> None:
        """Go on when all processes have come to this line."""
        if self.size > 1:
            torch.distributed.barrier()

    def ask_to_stop(self, *_: object) -> None:
        """What Ctrl-C does in a team: all stop after the same step."""
        self._asked = True

    def disband(self) -> None:
        """End the connection."""
        if self.size > 1:
            torch.distributed.destroy_process_group()


ALONE = Team()


def join_team(device: str | None = None) -> tuple[Team, str | None]:
    """The team that torchrun has started, or ALONE, and this process's device by name.

    Each process has a GPU of its own; without GPUs, or with device="cpu", they share the CPU.
    Raises CourseError for more processes than GPUs.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        return ALONE, device
    chosen = choose_device(device)
    if chosen.type == "cuda":
        local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise CourseError(
                f"there are more processes than GPUs on this machine ({gpus}); start one for each "
                "GPU, or use --device cpu"
            )
        chosen = torch.device("cuda", local)
        torch.cuda.set_device(chosen)
    elif chosen.type != "cpu":
        raise CourseError(f"several processes cannot share {chosen}; start one, or --device cpu")
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, timeout=PATIENCE)
    team = Team(torch.distributed.get_rank(), size)
    signal.signal(signal.SIGINT, team.ask_to_stop)
    return team, str(chosen)
