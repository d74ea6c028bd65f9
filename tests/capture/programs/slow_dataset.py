"""A training whose samples cost some Python: `slow_dataset.py WORKERS [busy]`, with a thread that computes."""

import sys
import threading

import torch


class Worked(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.full((4,), float(sum(range(3000)) % 7))


def watch():
    while True:
        sum(range(1000))


if "busy" in sys.argv:
    threading.Thread(target=watch, daemon=True).start()
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for batch in torch.utils.data.DataLoader(Worked(), batch_size=4, num_workers=int(sys.argv[1])):
    net(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
