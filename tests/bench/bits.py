"""The same answer, bit for bit, however the prompt is cut: digests of the logits of every token, with wire f32."""

TOKENS = 6
PROMPTS = (37, 200, 512)
SETTINGS = ("off", "auto", "rows=16", "rows=48,columns=3", "rows=64,columns=4", "rows=512,columns=8", "rows=100,columns=16")


def run(fleet):
    """(claim, holds, words) for each number of stages and each prompt. The gateway was started with --logits-digest."""
    fleet.set_links(30, 10)
    for rows in PROMPTS:
        prompt = fleet.prompt(rows)
        digests = {spec: fleet.ask(prompt, TOKENS, overlap=spec).digests for spec in SETTINGS}
        assert all(len(d) == TOKENS for d in digests.values()), "the gateway tells no digests"
        other = [spec for spec, d in digests.items() if d != digests["off"]]
        print(f"  {fleet.stages} stages, prompt {rows}: {len(SETTINGS) - len(other)} of {len(SETTINGS)} settings agree on {TOKENS} digests", flush=True)
        yield "logits are the same bit for bit however a prompt is cut (wire f32)", not other, f"{fleet.stages} stages, prompt {rows}: {', '.join(other)} differ from off"
