"""Functions whose backward reads state that the program changes between the call and the backward."""

from __future__ import annotations

import torch

from small_functions import Twice

SCALE = 2.0
SETTINGS = {"scale": 2.0}


class Settings:
    def __init__(self):
        self.scale, self.calls = 2.0, [0]


def of_global():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * SCALE

        @staticmethod
        def backward(ctx, gradient):
            return gradient * SCALE

    def change():
        global SCALE
        SCALE += 1

    return Scaled.apply, change


def of_a_dict_through_a_function():
    def scale():
        return SETTINGS["scale"]

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * scale()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * scale()

    def change():
        SETTINGS["scale"] += 1

    return Scaled.apply, change


def of_an_object():
    settings = Settings()

    class Scaled(Twice):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * settings.scale * settings.calls[0]

    def change():
        settings.scale += 1
        settings.calls[0] += 1

    return Scaled.apply, change


def of_a_cell():
    scale = 2.0

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * scale

    def change():
        nonlocal scale
        scale += 1

    return Scaled.apply, change


def of_its_class():
    class Scaled(torch.autograd.Function):
        scale = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Scaled.scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * Scaled.scale

    def change():
        Scaled.scale += 1

    return Scaled.apply, change


def of_what_ctx_holds():
    settings = Settings()

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, settings):
            ctx.settings = settings
            return x * settings.scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.settings.scale, None

    def change():
        settings.scale += 1

    return lambda x: Scaled.apply(x, settings), change


KINDS = [of_global, of_a_dict_through_a_function, of_an_object, of_a_cell, of_its_class, of_what_ctx_holds]
