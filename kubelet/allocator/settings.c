/*
 * What the allocator of the kubelet (jemalloc) begins with; it looks for a string of this name, which Rust could only give it
 * by what is unsafe. One arena, as little is done at once; what a thread keeps for itself is small; memory that has not been
 * used for a second goes back to the system with what is freed next. _RJEM_MALLOC_CONF overrides it when the kubelet starts.
 */
const char *_rjem_malloc_conf =
	"narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0,"
	"tcache_max:1024,tcache_nslots_small_min:2,tcache_nslots_small_max:8,lg_tcache_nslots_mul:0";
