-- Made by "lull slurm install" (@VERSION@). It holds jobs that may wait for clean power until Lull has planned them:
-- for @GRACE@ s, or for the delay that they state if that is shorter. After that Slurm starts them, with or without Lull.
-- Another job_submit.lua can load this file with pcall(dofile, FILE), and call lull_job_submit(job_desc, part_list) from its slurm_job_submit.
-- Touch the other file after each change of this one: slurmctld compares the time of the other one only.

local lull_grace = @GRACE@
local lull_defaults = {
@DEFAULTS@}
-- The licence that a job takes for each of its CPUs, and how many there are; nil if capacity is not bounded.
local lull_licence = @LICENCE@

-- Seconds of a duration such as 8h or 1d12h30m; nil if it is none.
local function lull_seconds(text)
	local units, total, rest = { d = 86400, h = 3600, m = 60, s = 1 }, 0, text
	while rest ~= "" do
		local n, unit, after = string.match(rest, "^(%d+)([dhms])(.*)$")
		if n == nil then
			return nil
		end
		total, rest = total + tonumber(n) * units[unit], after
	end
	return total
end

-- How long a job may wait by its comment or by the administrator; nil if it may not. A job that states no delay of its own may have a
-- deadline, which this script does not see: Lull does.
local function lull_delay(job, partition)
	local options = nil
	for word in string.gmatch(job.comment or "", "[^%s;]+") do
		local part = string.match(word, "^lull:(.*)$")
		options = part or options
	end
	local delay = nil
	for _, d in ipairs(lull_defaults) do
		local is = (d.partition == nil or d.partition == partition) and (d.qos == nil or d.qos == job.qos) and (d.account == nil or d.account == (job.account or job.default_account))
		if is then
			delay = d.delay
			break
		end
	end
	if options == nil then
		return delay
	end
	delay = delay or lull_grace
	for entry in string.gmatch(options, "[^,]+") do
		local value = string.match(entry, "^max%-delay=(.*)$")
		if entry == "off" then
			return nil
		elseif value ~= nil then
			delay = lull_seconds(value)
		end
	end
	return delay
end

-- How many of a licence an entry of a list asks for, such as power:4, power=4 or power; nil if it is one of another name.
local function lull_count(entry, name)
	local word, after = string.match(entry, "^%s*([%w%._%+%-]+)(.*)$")
	if word ~= name then
		return nil
	end
	local count = string.match(after, "^[:=%*](%d+)%s*$")
	if count ~= nil then
		return tonumber(count)
	end
	return string.match(after, "^%s*$") and 1 or nil
end

-- A list of licences with at least so many of the one of Lull, and how many of those it states.
local function lull_licenses(text, least)
	local list, stated = {}, 0
	for entry in string.gmatch(text or "", "[^,;]+") do
		local count = lull_count(entry, lull_licence.name)
		if count == nil then
			table.insert(list, entry)
		else
			stated = stated + count
		end
	end
	table.insert(list, string.format("%s:%d", lull_licence.name, math.max(stated, least)))
	return table.concat(list, ","), stated
end

-- How many licences as many CPUs take, at least one. A job of more CPUs than there are takes all.
local function lull_least(cpus)
	if cpus == nil or cpus < 1 or cpus >= slurm.NO_VAL then
		cpus = 1
	end
	return math.min(cpus, lull_licence.most)
end

function lull_job_submit(job, partitions)
	if job.script == nil or job.script == "" then
		return -- somebody waits for it: salloc or srun
	end
	local begin = job.begin_time
	if begin ~= nil and begin ~= 0 and begin ~= slurm.NO_VAL then
		return -- the user states a begin time
	end
	local partition = job.partition
	for name, p in pairs(partitions or {}) do
		if partition == nil and p.flag_default ~= nil and p.flag_default ~= 0 then
			partition = name
		end
	end
	local delay = lull_delay(job, partition)
	if delay == nil or delay <= 0 then
		return
	end
	local took = ""
	if lull_licence ~= nil then
		local least = lull_least(job.min_cpus)
		local list = lull_licenses(job.licenses, least)
		job.licenses = list
		took = string.format("licences=%d ", least)
	end
	if lull_grace <= 0 then
		return
	end
	local at = os.time() + math.min(delay, lull_grace)
	local note = ""
	if job.admin_comment ~= nil and job.admin_comment ~= "" then
		note = job.admin_comment .. " "
	end
	job.begin_time = at
	job.admin_comment = string.format("%slull: waits for the plan of Lull; starts by %s at the latest without one [begin=%d %sphase=held]", note, os.date("!%Y-%m-%dT%H:%MZ", at), at, took)
end

-- An error here must not keep a job from being submitted.
function slurm_job_submit(job, partitions, uid)
	local ok, why = pcall(lull_job_submit, job, partitions)
	if not ok then
		slurm.log_info("lull: job_submit.lua: %s", tostring(why))
	end
	return slurm.SUCCESS
end

-- Keeps the licences of a job that may wait, if its user changes the list: as many as it was given, or as an operator has left it. uid is who changes it.
function lull_job_modify(job, record, uid)
	-- Lull, which may run as this user, states a new AdminComment with the licences of a new number of tasks. Slurm refuses that of other users, and all else of the update.
	if job.admin_comment ~= nil and job.admin_comment ~= "" and job.admin_comment ~= record.admin_comment then
		return
	end
	if lull_licence == nil or job.licenses == nil or uid ~= record.user_id or string.find(record.admin_comment or "", "lull: ", 1, true) == nil then
		return
	end
	local least = tonumber(string.match(record.admin_comment, "licences=(%d+)")) or lull_least(record.min_cpus)
	if record.licenses ~= nil then
		local _, had = lull_licenses(record.licenses, 0)
		if had < 1 then
			return -- an operator has taken them away
		end
		least = math.min(least, had)
	end
	local list = lull_licenses(job.licenses, least)
	job.licenses = list
end

function slurm_job_modify(job, record, partitions, uid)
	local ok, why = pcall(lull_job_modify, job, record, uid)
	if not ok then
		slurm.log_info("lull: job_submit.lua: %s", tostring(why))
	end
	return slurm.SUCCESS
end

return slurm.SUCCESS
