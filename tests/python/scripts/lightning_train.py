"""A LightningModule and its Trainer, as in Lightning's introduction."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from telling import step, tell


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))

    def training_step(self, batch, _):
        step()
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main():
    L.seed_everything(7, workers=True)
    inputs = torch.randn(96, 10)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    model = Classifier()
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, DataLoader(TensorDataset(inputs, targets), batch_size=12, shuffle=True))
    environment = trainer.strategy.cluster_environment
    tell(model, rank=trainer.global_rank, world=trainer.world_size, local_rank=trainer.local_rank,
         node_rank=trainer.node_rank, environment=type(environment).__name__)


if __name__ == "__main__":
    main()
