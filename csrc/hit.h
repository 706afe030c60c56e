#pragma once

// Marks functions that a cache hit runs. They share one section, so that they occupy few pages of memory.
#define DL_HIT [[gnu::section("dl_hit")]]
