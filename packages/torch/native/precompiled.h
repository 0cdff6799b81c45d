// Compiled once per build; every .cc of the door starts from it. Only headers that all of them would pull in anyway.
#pragma once
#include <napi.h>
#include <torch/torch.h>
#include <ATen/core/dispatch/Dispatcher.h>
