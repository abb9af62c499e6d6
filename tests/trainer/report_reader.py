"""Reads what report_writer wrote with independent readers: Python's json and csv, and a reader of wandb's file
that follows only docs/metrics.md. With --tensorboard also TensorBoard's own reader, with
--wandb wandb's own (DataStore, in its releases up to 0.19)."""

import csv
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

WITH_TENSORBOARD = "--tensorboard" in sys.argv and not sys.argv.remove("--tensorboard")
WITH_WANDB = "--wandb" in sys.argv and not sys.argv.remove("--wandb")
WRITER = sys.argv.pop()
STEPS = 300  # enough to cross a few blocks of wandb's log
BLOCK = 32768


def wandb_records(content):
    """The messages of a .wandb file, its checksums and padding checked."""
    assert content[:7] == b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    at, whole = 7, b""
    types = set()
    while at < len(content):
        room = BLOCK - at % BLOCK
        if room < 7:
            assert content[at:at + room] == bytes(room)
            at += room
            continue
        crc, length, kind = struct.unpack_from("<IHB", content, at)
        data = content[at + 7:at + 7 + length]
        assert len(data) == length <= room - 7
        assert crc == zlib.crc32(bytes([kind]) + data)
        assert (kind in (1, 2)) == (whole == b""), "parts in their order"
        types.add(kind)
        at += 7 + length
        whole += data
        if kind in (1, 4):
            yield whole
            whole = b""
    assert whole == b"" and types == {1, 2, 3, 4}, types


def fields(message):
    """Field number → values of a protobuf message."""

    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift += 7
            at += 1
            if message[at - 1] < 128:
                return value, at

    found, at = {}, 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            assert key & 7 == 2, key
            length, at = varint(at)
            value, at = message[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def items(message):
    """Key → value of the items of a config, history or summary."""
    found = {}
    for item in message[1]:
        item = fields(item)
        found[item[1][0].decode()] = json.loads(item[16][0])
    return found


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.room.name)
        subprocess.run([WRITER, cls.room.name, str(STEPS)], check=True)
        (cls.wandb_file,) = cls.directory.glob("wandb/offline-run-*-abcd1234/run-abcd1234.wandb")

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def test_each_event_is_a_json_line_and_a_csv_row_with_the_same_values(self):
        lines = [json.loads(line)
                 for line in (self.directory / "run.jsonl").read_text().splitlines()]
        with (self.directory / "run.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        names = ["start"] + ["step"] * STEPS + ["epoch", "validation", "snapshot", "final"]
        self.assertEqual([line["event"] for line in lines], names)
        self.assertEqual(len(rows), len(lines))
        for line, row in zip(lines, rows):
            known = {key: value for key, value in row.items() if value != ""}
            self.assertEqual(
                {key for key, value in line.items() if value not in (None, "")}, set(known))
            for key, text in known.items():
                value = line[key]
                self.assertEqual(type(value)(text) if not isinstance(value, str) else text, value)

    def test_a_wandb_file_holds_the_run_its_rows_and_its_end(self):
        records = [fields(record) for record in wandb_records(self.wandb_file.read_bytes())]
        self.assertEqual([record[1][0] for record in records], list(range(1, len(records) + 1)))
        kinds = [next(iter(set(record) - {1})) for record in records]
        self.assertEqual(kinds[:2] + kinds[-1:], [21, 17, 18])
        self.assertEqual(kinds[2:-1], [2, 3] * (STEPS + 1))
        run = fields(records[1][17][0])
        self.assertEqual([run[1], run[3], run[6], run[8]],
                         [[b"abcd1234"], [b"kit"], [b"g"], [b"seven_step2"]])
        self.assertEqual(fields(run[17][0])[1], [1700000000])
        self.assertEqual(
            items(fields(run[4][0])),
            {"lr": 0.5, "amp": False, "note": "n" * 70000, "WORLD_SIZE": 2,
             "effective_batch_size": 8, "SLURM_JOB_ID": "7"})
        rows = [fields(record[2][0]) for record in records if 2 in record]
        for number, row in enumerate(rows):
            self.assertEqual(fields(row[2][0])[1], [number])
            self.assertEqual(items(row)["_step"], number)
        self.assertEqual([items(row)["train/loss"] for row in rows[:-1]],
                         [number / 8 for number in range(1, STEPS + 1)])
        summary = items(fields(records[-2][3][0]))
        self.assertEqual((summary["train/loss"], summary["val/loss"]), (STEPS / 8, 0.75))
        self.assertEqual(fields(records[-1][18][0])[1], [0])

    @unittest.skipUnless(WITH_TENSORBOARD, "without --tensorboard")
    def test_tensorboard_reads_every_point_and_accepts_every_checksum(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

        mila = EventAccumulator(str(self.directory / "mila"), size_guidance={"scalars": 0}).Reload()
        self.assertEqual(
            set(mila.Tags()["scalars"]),
            {"train/loss", "train/accuracy", "train/samples_per_sec", "epoch", "updates", "samples",
             "train/learning_rate", "val/loss", "val/accuracy", "val/samples_per_sec"})
        points = mila.Scalars("train/loss")
        self.assertEqual([(p.step, p.value) for p in points],
                         [(number, number / 8) for number in range(1, STEPS + 1)])
        self.assertEqual(points[0].wall_time, 1700000003.0)

        kaust = EventAccumulator(str(self.directory / "kaust")).Reload()
        self.assertEqual(
            {tag: kaust.Scalars(tag)[0].value for tag in kaust.Tags()["scalars"]},
            {"Loss/train": 2.0, "Loss/val": 0.75, "Accuracy/train": 50.0, "Accuracy/val": 25.0,
             "Throughput/images_per_sec": 2.0, "LR": 0.5})

        (file,) = (self.directory / "kaust").iterdir()
        reader = PyRecordReader_New(str(file))
        reader.GetNext()
        reader.GetNext()
        broken = bytearray(file.read_bytes())
        broken[-6] ^= 1
        file.write_bytes(broken)
        reader = PyRecordReader_New(str(file))
        reader.GetNext()
        with self.assertRaises(Exception):
            reader.GetNext()

    @unittest.skipUnless(WITH_WANDB, "without --wandb")
    def test_wandbs_own_reader_takes_every_record(self):
        import wandb
        from wandb.proto import wandb_internal_pb2
        from wandb.sdk.internal.datastore import DataStore

        wandb._set_internal_process(disable=True)
        store = DataStore()
        store.open_for_scan(str(self.wandb_file))
        kinds = {}
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            kinds[kind] = kinds.get(kind, 0) + 1
            if kind == "history":
                step = record.history.step.num
                values = {item.key: json.loads(item.value_json) for item in record.history.item}
                self.assertEqual(values["_step"], step)
                self.assertIn("train/loss" if step < STEPS else "val/loss", values)
        self.assertEqual(kinds, {"header": 1, "run": 1, "history": STEPS + 1,
                                 "summary": STEPS + 1, "exit": 1})
        store.close()


if __name__ == "__main__":
    unittest.main()
