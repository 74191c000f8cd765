"""Train five seeds of an LSTM together and look at each of them."""

import ctlpp


def main(steps: int = 600) -> None:
    small = {
        "symbols": 4,
        "functions": 8,
        "max_length": 4,
        "fill": 0.9,
        "train": 2200,
        "iid": 200,
        "ood": 400,
    }
    data = ctlpp.generate("R", protocol="clean", **small)
    recipe = ctlpp.recipe_for("lstm", "quick", steps=steps)
    run = ctlpp.train("lstm", data, seeds=range(5), preset="quick", recipe=recipe)

    for row in run.table():
        print(f"seed {row['seed']}: iid {row['iid']:.2f}, ood {row['ood']:.2f}")

    model = run.crowd.member(3)  # seed 3 as an ordinary nn.Module
    for length, accuracy in ctlpp.accuracy(model, data, ["ood"])["ood"].items():
        print(f"seed 3 on OOD examples of {length or 'all'} functions: {accuracy:.2f}")


if __name__ == "__main__":
    main()
