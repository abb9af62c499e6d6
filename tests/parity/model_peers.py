"""The models of ddptrain in Python: torchvision's own, and those that torchvision lacks."""

import torch
from torch import nn
from torch.nn import functional

# name: (channels, side, classes), as the kind's origin has it.
DEFAULTS = {
    **dict.fromkeys(["convnet", "simple_conv_net", "my_net", "linear"], (1, 28, 10)),
    **dict.fromkeys(
        ["dummy", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
         "vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32"], (3, 224, 1000)),
    "crusoe_vit_tiny": (3, 32, 10),
    "crusoe_vit_large": (3, 128, 1000),
    "crusoe_vit_huge": (3, 128, 1000),
}
NLL = ["simple_conv_net", "my_net"]  # the others end in scores, for cross entropy


class ConvLayers(nn.Module):
    def __init__(self, channels, side):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(64 * ((side - 4) // 2) ** 2, 128)


class ConvNet(ConvLayers):
    def __init__(self, channels, side, classes):
        super().__init__(channels, side)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = torch.flatten(functional.max_pool2d(x, 2), 1)
        return self.fc2(functional.relu(self.fc1(x)))


class SimpleConvNet(ConvLayers):
    def __init__(self, channels, side, classes):
        super().__init__(channels, side)
        self.fc2 = nn.Linear(128, classes)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = torch.flatten(self.dropout1(functional.max_pool2d(x, 2)), 1)
        x = self.dropout2(functional.relu(self.fc1(x)))
        return functional.log_softmax(self.fc2(x), dim=1)


class MyNet(ConvLayers):
    def __init__(self, channels, side, classes):
        super().__init__(channels, side)
        self.fc2 = nn.Linear(128, 20)
        self.fc3 = nn.Linear(20, classes)
        self.dropout1 = nn.Dropout2d(0.5)
        self.dropout2 = nn.Dropout2d(0.75)

    def forward(self, x):
        x = functional.relu(self.dropout1(self.conv1(x)))
        x = functional.max_pool2d(self.dropout2(self.conv2(x)), 2)
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        x = functional.relu(self.fc2(x))
        return functional.log_softmax(self.fc3(x), dim=1)


class Dummy(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc = nn.Linear(1, classes)

    def forward(self, x):
        return self.fc(x.flatten(1).mean(1, keepdim=True))


class LinearNet(nn.Module):
    def __init__(self, channels, side, classes):
        super().__init__()
        self.fc = nn.Linear(channels * side * side, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, width = x.shape
        packed = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        x = functional.scaled_dot_product_attention(query, key, value)
        return self.dropout(self.proj(x.transpose(1, 2).reshape(batch, tokens, width)))


class Block(nn.Module):
    def __init__(self, width, heads, mlp, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, mlp), nn.GELU(), nn.Dropout(dropout),
                                 nn.Linear(mlp, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CrusoeViT(nn.Module):
    def __init__(self, image, classes, *, width, depth, heads, mlp, patch=16, dropout=0.1):
        super().__init__()
        channels, side = image
        self.patch_embedding = nn.Conv2d(channels, width, patch, stride=patch)
        self.pos_embedding = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width))
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, mlp, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch_embedding(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.norm(self.blocks(self.dropout(x + self.pos_embedding)))
        return self.fc(x[:, 0])


CRUSOE = {
    "crusoe_vit_tiny": {"width": 64, "depth": 2, "heads": 4, "mlp": 128},
    "crusoe_vit_large": {"width": 1024, "depth": 24, "heads": 16, "mlp": 4096},
    "crusoe_vit_huge": {"width": 1280, "depth": 32, "heads": 16, "mlp": 5120},
}


def make(name, channels, side, classes):
    """The model that ddptrain calls `name`; draws from the default generator."""
    if name.startswith("resnet") or name.startswith("vit_"):
        import torchvision  # not at the top: the other models need none

        options = {"image_size": side} if name.startswith("vit_") else {}
        assert channels == 3, "torchvision's models take three channels"
        return getattr(torchvision.models, name)(weights=None, num_classes=classes, **options)
    if name in CRUSOE:
        return CrusoeViT((channels, side), classes, **CRUSOE[name])
    if name == "dummy":
        return Dummy(classes)
    nets = {"convnet": ConvNet, "simple_conv_net": SimpleConvNet, "my_net": MyNet,
            "linear": LinearNet}
    return nets[name](channels, side, classes)


def loss_of(name, output, labels):
    if name in NLL:
        return functional.nll_loss(output, labels)
    return functional.cross_entropy(output, labels)
