"""Writes events/accounts.csv and events/transfers.csv: 60 days of 300 accounts, the same ones each time."""

import random
from pathlib import Path

SHOPS, MULES, PATIENT = range(10), range(10, 18), range(18, 20)  # who receives from many; of the last, slowly


def main() -> None:
    """Shops keep what they get. Mules get it from many, within days, and send most of it to one account."""
    draw = random.Random(14)
    transfers = []
    for _ in range(3000):
        target = draw.choice(SHOPS) if draw.random() < 0.3 else draw.randrange(20, 300)
        transfers.append((draw.randrange(60), draw.randrange(20, 300), target, draw.uniform(5, 400)))
    for mule in (*MULES, *PATIENT):
        first, days = draw.randrange(20), 5 if mule in MULES else 35
        amounts = [draw.uniform(50, 300) for _ in range(15)]
        transfers += [
            (first + draw.randrange(days), sender, mule, amount)
            for sender, amount in zip(draw.sample(range(20, 300), 15), amounts, strict=True)
        ]
        transfers.append((first + days, mule, draw.randrange(20, 300), 0.9 * sum(amounts)))
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    lines = [f"{source},{target},{value:.2f},{day}" for day, source, target, value in sorted(transfers)]
    (folder / "transfers.csv").write_text("\n".join(["sourceNodeId,targetNodeId,value,time", *lines, ""]))
    lines = [f"{account},{int(account in MULES or account in PATIENT)}" for account in range(300)]
    (folder / "accounts.csv").write_text("\n".join(["nodeid,isFraud", *lines, ""]))


if __name__ == "__main__":
    main()
