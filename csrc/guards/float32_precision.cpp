#include "guards/float32_precision.h"

#include <ATen/Context.h>

#include <array>
#include <cstddef>

#include "guards/private_members.h"

namespace dynamo_lite {

namespace {

DL_REVEAL(Settings, at::Context, fp32_precision);
DL_REVEAL(Matmul, at::Context, float32_matmul_precision);
DL_REVEAL(Cudnn, at::Context, allow_tf32_cudnn);

struct Setting {
  const char* name;
  at::Float32Backend backend;
  at::Float32Op op;
};

constexpr std::array kSettings{
    Setting{"all", at::Float32Backend::GENERIC, at::Float32Op::ALL},
    Setting{"mkldnn", at::Float32Backend::MKLDNN, at::Float32Op::ALL},
    Setting{"mkldnn conv", at::Float32Backend::MKLDNN, at::Float32Op::CONV},
    Setting{"mkldnn rnn", at::Float32Backend::MKLDNN, at::Float32Op::RNN},
    Setting{"mkldnn matmul", at::Float32Backend::MKLDNN, at::Float32Op::MATMUL},
    Setting{"cuda", at::Float32Backend::CUDA, at::Float32Op::ALL},
    Setting{"cuda conv", at::Float32Backend::CUDA, at::Float32Op::CONV},
    Setting{"cuda rnn", at::Float32Backend::CUDA, at::Float32Op::RNN},
    Setting{"cuda matmul", at::Float32Backend::CUDA, at::Float32Op::MATMUL},
};
constexpr int kBits = 4;  // of each setting; after them come the matmul precision and, in one bit, cuDNN's

constexpr std::array kPrecisions{"unset", "ieee", "tf32", "bf16", "default"};
constexpr std::array kMatmulPrecisions{"highest", "high", "medium"};

template <std::size_t size>
const char* name_of(const std::array<const char*, size>& names, std::uint64_t value) {
  return value < size ? names[value] : "unknown";
}

// Where torch keeps each setting. The map has all of them from the start, and a map's values stay where they are.
std::array<const at::Float32Precision*, kSettings.size()> places() {
  const auto& settings = at::globalContext().*revealed(Settings{});
  std::array<const at::Float32Precision*, kSettings.size()> found{};
  for (std::size_t i = 0; i < kSettings.size(); ++i) {
    const auto at = settings.find({kSettings[i].backend, kSettings[i].op});
    if (at != settings.end()) found[i] = &at->second;
  }
  return found;
}

}  // namespace

std::uint64_t float32_precisions() noexcept {
  static const auto found = places();
  static const at::Context& context = at::globalContext();
  std::uint64_t settings = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) settings |= static_cast<std::uint64_t>(*found[i]) << (kBits * i);
  }
  settings |= static_cast<std::uint64_t>(context.*revealed(Matmul{})) << (kBits * found.size());
  return settings | static_cast<std::uint64_t>(context.*revealed(Cudnn{})) << (kBits * (found.size() + 1));
}

std::string show_float32_precisions(std::int64_t settings) {
  const auto at = [settings](std::size_t i) { return static_cast<std::uint64_t>(settings) >> (kBits * i) & 15; };
  std::string details;
  const auto add = [&details](const std::string& detail) { details += (details.empty() ? "" : ", ") + detail; };
  for (std::size_t i = 0; i < kSettings.size(); ++i) {
    if (at(i) != 0) add(std::string(kSettings[i].name) + " " + name_of(kPrecisions, at(i)));
  }
  if (at(kSettings.size() + 1)) add("tf32 in cuDNN");
  return name_of(kMatmulPrecisions, at(kSettings.size())) + (details.empty() ? "" : " (" + details + ")");
}

}  // namespace dynamo_lite
