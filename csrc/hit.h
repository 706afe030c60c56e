#pragma once

// For functions that a hit runs: they are in one section, and so on few pages.
#define DL_HIT [[gnu::section("dl_hit")]]
