-- KEYS: record. ARGV: the token that the caller saw.
-- Leaves a waiter's mark, unless there is reason to try again: {1}; else {0}; {-1} damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
local is_busy = record.held or record.shared > now
if not is_busy or text(record.token) ~= ARGV[1] then return { 1 } end
mark(key, now, math.max(record.deadline, record.shared))
return { 0 }
