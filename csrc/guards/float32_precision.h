// How exact float32 kernels have to be: torch's settings for matrix products, convolutions and recurrent layers.
#pragma once

#include <cstdint>
#include <string>

namespace dynamo_lite {

// Every one of the settings, as one number to compare.
std::uint64_t float32_precisions() noexcept;

// That number in words.
std::string show_float32_precisions(std::int64_t settings);

}  // namespace dynamo_lite
