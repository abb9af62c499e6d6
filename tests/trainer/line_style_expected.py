#!/usr/bin/env python3
"""The lines of each style as Python's own formatting writes them, for line_style_test.cpp.

    line_style_expected.py           prints the table
    line_style_expected.py --check FILE   fails unless FILE contains it

Each section begins with "== STYLE EVENT"; its lines follow. The format strings are those of the
systems that docs/metrics.md names, the values those of the events in line_style_test.cpp.
"""

import argparse
import sys

RANK, LOCAL_RANK, WORLD = 0, 0, 4

# Chosen so that rounding shows: halves that are not exact in binary, thousands, exponents.
TRAIN_LOSS, TRAIN_CORRECT, TRAIN_SAMPLES = 2250.0625, 785.0, 1000.0
VAL_LOSS, VAL_CORRECT, VAL_TOP5, VAL_SAMPLES = 128.0, 27.0, 45.0, 51.0
BATCH_LOSS_SUM = 50.8125
STEP_LOSS, STEP_SAMPLES = 9.0, 4.0
ARGUMENTS = argparse.Namespace(
    epochs=5, batch_size=64, lr=0.01, weight_decay=1e-05, scale=1e16, momentum=1.0,
    data_dir="./data", note="it's", both="'\"\n\\", amp=False, pretrained=True)


def sections():
    train_loss = TRAIN_LOSS / TRAIN_SAMPLES
    train_percent = 100 * TRAIN_CORRECT / TRAIN_SAMPLES
    val_loss = VAL_LOSS / VAL_SAMPLES
    val_accuracy = VAL_CORRECT / VAL_SAMPLES
    val_percent = 100 * VAL_CORRECT / VAL_SAMPLES
    val_rate = VAL_SAMPLES / 0.5
    e, first_epoch, epochs = 10, 8, 30
    lr = 0.010000000000000002
    step_loss = STEP_LOSS / STEP_SAMPLES
    parameters, trainable = 304117736, 1199882

    yield "plain began", [
        "ddptrain dataset=cifar10 model=vit_large parameters=304117736 train_samples=45000 "
        "test_samples=5000 world=4 batch_size=128 threads=1 kernels=AVX2 torch=2.11.0"]
    yield "plain resumed", ["resumed epoch=10 step=1234"]
    yield "plain step", []
    yield "plain trained", [
        f"epoch={e} step=1234 loss={train_loss:.6f} accuracy={train_percent:.4f} samples_per_s={800.5:.0f}"]
    yield "plain validated", [
        f"validation epoch={e} step=1234 loss={val_loss:.6f} accuracy={val_percent:.4f} "
        f"top5={100 * VAL_TOP5 / VAL_SAMPLES:.4f} samples_per_s={val_rate:.0f}"]
    yield "plain snapshot", []
    yield "plain stopped", ["stopped epoch=10 step=1234"]
    yield "plain ended", [
        f"final epoch={e} step=1234 loss={val_loss:.6f} accuracy={val_percent:.4f} weights_sha256=ab12"]

    prefix = f"[{RANK + 1}/{WORLD}] - "
    yield "mila-imagenet began", ["Using random seed: 42"]
    yield "mila-imagenet resumed", [
        prefix + f"Resuming training from epoch {e} (step {1234}, {157952} total samples)"]
    yield "mila-imagenet step", []
    yield "mila-imagenet validated", [
        f"Epoch {e}: Val loss: {val_loss:.3f} accuracy: {val_accuracy:.2%} samples/sec: {val_rate:.1f}"]
    yield "mila-imagenet ended", [
        f"Done in {62.68:.1f} seconds, with {45000 / 62.68:.1f} images/second"]

    yield "mila-cifar began", [
        "PyTorch Distributed available.", "  Backends:", f"    Gloo: {True}", f"    NCCL: {False}",
        f"    MPI:  {False}", f"[{RANK}/{WORLD}] __main__ - World size: {WORLD}, global rank: {RANK}",
        f"[{RANK}/{WORLD}] __main__ - Effective batch size: {128 * WORLD}"]
    yield "mila-cifar validated", [
        f"[{RANK}/{WORLD}] __main__ - Epoch {e}: Val loss: {BATCH_LOSS_SUM:.3f} accuracy: {val_accuracy:.2%}"]
    yield "mila-cifar stopped", ["Job received a SIGTERM signal!"]
    yield "mila-cifar ended", ["Done!"]

    yield "crusoe-mnist began", [
        f"Starting distributed training on {WORLD} GPUs", f"Arguments: {ARGUMENTS}"]
    yield "crusoe-mnist step", [f"Epoch {e} [{25600}/{45000}] Loss: {step_loss:.6f}"]
    yield "crusoe-mnist trained", [
        f"Epoch {e} - Avg Loss: {train_loss:.6f}, Accuracy: {train_percent:.2f}%",
        f"Epoch {e} completed in {1.25:.2f}s"]
    yield "crusoe-mnist validated", []
    yield "crusoe-mnist snapshot", [f"Checkpoint saved to {'./checkpoints/checkpoint_epoch_10.pt'}"]
    yield "crusoe-mnist ended", ["Training completed!"]

    yield "crusoe-vit began", [
        f"Model parameters: {parameters:,}", f"Trainable parameters: {trainable:,}",
        f"Model size: ~{parameters * 4 / 1e9:.2f} GB (fp32)", f"Batches per epoch: {88}"]
    yield "crusoe-vit step", [
        f"Epoch {e} [{50}/{88}] Loss: {step_loss:.6f} Speed: {704.85:.2f} samples/sec"]
    yield "crusoe-vit trained", [
        f"Epoch {e} Summary:", f"  Loss: {train_loss:.6f}", f"  Accuracy: {train_percent:.2f}%",
        f"  Time: {1.25:.2f}s", f"  Throughput: {800.5:.2f} samples/sec",
        f"  Samples: {int(TRAIN_SAMPLES)}", f"  Elapsed: {90 / 60:.1f} min, ETA: {1000 / 60:.1f} min"]
    yield "crusoe-vit snapshot", [f"Checkpoint saved to {'./checkpoints/checkpoint_epoch_10.pt'}"]
    yield "crusoe-vit ended", ["Training completed!"]

    yield "kaust began", [
        "[Rank 0] TensorBoard logging to: runs/ddp_resnet50_20261122-074326",
        "[Rank 0] Using DATA_DIR=./tiny-imagenet-200",
        f"[Rank 0] Train size (global): {45000}",
        f"[Rank 0] Val size   (global): {5000}",
        f"[Rank 0] World size: {WORLD}",
        f"[Rank 0] Per-GPU batch size: {128}",
        f"[Rank 0] Global batch size: {128 * WORLD}"]
    yield "kaust step", []
    yield "kaust trained", []
    yield "kaust validated", [
        f"Epoch [{e - first_epoch + 1}/{epochs}] LR: {lr:.6f} | Loss (train, val): "
        f"{train_loss:.3f}, {val_loss:.3f} | Accuracy (train, val): {train_percent:.2f}%, "
        f"{val_percent:.2f}% | Throughput: {TRAIN_SAMPLES / 1.75:.1f} img/s"]
    yield "kaust ended", [
        "Finished Training", f"Total execution time = {62.68:.3f} sec",
        f"Max memory used by tensors = {123456789} bytes", f"peak rss = {987654321} bytes"]

    yield "openacc began", [f"Local rank  {LOCAL_RANK}"]
    yield "openacc epoch", [f"Local Rank: {LOCAL_RANK}, Epoch: {e}, Training ..."]
    yield "openacc validated", ["-" * 75, f"Epoch: {e}, Accuracy: {val_accuracy}", "-" * 75]
    yield "openacc snapshot", [f"Checkpointing model {RANK} done."]
    yield "openacc ended", []


def table():
    text = ""
    for name, lines in sections():
        text += f"== {name}\n" + "".join(line + "\n" for line in lines)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="FILE")
    options = parser.parse_args()
    if options.check is None:
        sys.stdout.write(table())
        return 0
    with open(options.check, encoding="utf-8", newline="") as file:
        if file.read() == table():
            return 0
    print(f"{options.check} is not what this Python writes; write it again with {sys.argv[0]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
