"""A server that labels for other programs: start it, send a request, stop it.

`handful serve` listens on this machine only and answers requests that have its token. Here the other program is this
script itself; it could be written in any language. The script needs `pip install "handful[web]"`.
"""

import json
import subprocess
import sys
from urllib.request import Request, urlopen

from sklearn.datasets import load_digits

features, digits = load_digits(return_X_y=True)
examples = [row for digit in range(3) for row in (digits[:300] == digit).nonzero()[0][:5]]
pile = range(300, 420)
task = {
    "support": features[examples].tolist(),
    "labels": [f"digit {digit}" for digit in digits[examples]],
    "query": features[pile].tolist(),
}

# With --json, the first line has the address and the token.
server = subprocess.Popen([sys.executable, "-m", "handful", "serve", "--json"], stdout=subprocess.PIPE, text=True)
try:
    facts = json.loads(server.stdout.readline())
    headers = {"Authorization": f"Bearer {facts['token']}", "Content-Type": "application/json"}
    request = Request(f"{facts['address']}api/v1/solve", json.dumps(task).encode(), headers)
    with urlopen(request, timeout=60) as response:
        answer = json.load(response)
finally:
    server.terminate()
    server.wait()

truth = [f"digit {digit}" if digit < 3 else "unknown" for digit in digits[pile]]
labelled = [(label, real) for label, real in zip(answer["labels"], truth, strict=True) if label != "unknown"]
precision = sum(label == real for label, real in labelled) / len(labelled)
print("the answer has:", ", ".join(answer))
print("first labels:", ", ".join(answer["labels"][:5]))
print(f"share of unknowns: {answer['outlier_share']:.2f}, true: {truth.count('unknown') / len(truth):.2f}")
print(f"precision of the {len(labelled)} labels: {precision:.2f}")
